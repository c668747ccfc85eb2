/** Lists and metrics of a running gateway. */
import type { Site } from '../child.ts'

interface Listed {
  readonly items: readonly {
    readonly notificationId?: string
    readonly recipient?: string
    readonly record?: { readonly offset: number; readonly bytes: string }
  }[]
  readonly nextCursor: string | null
}

/** Reads all items of a list of the API. */
export async function allOf(
  site: Pick<Site, 'call'>,
  path: string,
  tenant = 'acme',
): Promise<Listed['items']> {
  const found: Listed['items'][number][] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const at: string = cursor === '' ? '' : `&cursor=${cursor}`
    const page: Listed = (
      await site.call('GET', `/api/v1/${path}${at}`, undefined, { 'x-tenant-id': tenant })
    ).json()
    found.push(...page.items)
    cursor = page.nextCursor
  }
  return found
}

/** Reads a figure of the metrics, summed over its labels. */
export async function figure(site: Pick<Site, 'call'>, name: string): Promise<number> {
  const { text } = await site.call('GET', '/metrics')
  const values = text.match(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm')) ?? []
  return values.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}
