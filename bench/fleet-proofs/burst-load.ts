/** Posts at all gateways without a pause while an engine fails, and measures how long each takes to decide. */
import { setTimeout as sleep } from 'node:timers/promises'
import { inParallel, type TestFleet } from '../../packages/gateway/test/guarantees/fleet.ts'

export interface Burst {
  /** Ids answered with 202 or 429. */
  readonly accepted: readonly string[]
  /** Answers by status and code. */
  readonly answers: Readonly<Record<string, number>>
  /** Milliseconds that decisions took, sorted. */
  readonly tookMs: readonly number[]
}

interface Answered {
  readonly notificationId?: string
  readonly code?: string
  readonly decision?: { readonly reason?: string }
}

const tenants = ['limited', 'limited', 'bounded', 'default'] as const

/** Posts until the time is over: for a few recipients, of several tenants, at the gateways in turn. */
export async function burst(fleet: TestFleet, isOver: () => boolean, clients: number): Promise<Burst> {
  const accepted: string[] = []
  const answers: Record<string, number> = {}
  const tookMs: number[] = []
  await inParallel(clients, clients, async (n) => {
    for (let k = 0; !isOver(); k += 1, await sleep(25)) {
      const startedAt = performance.now()
      const category = k % 10 === 0 ? { category: 'security' } : {}
      const body = { recipient: { id: `p${(n * 7 + k) % 40}` }, ...category }
      const tenant = tenants[(n + k) % tenants.length]!
      const answer = await fleet.post((n + k) % fleet.sites.length, { tenant, body }).catch(() => undefined)
      tookMs.push(performance.now() - startedAt)
      const { notificationId, code, decision } = answer?.json<Answered>() ?? {}
      const said = `${answer?.status ?? 'lost'} ${code ?? decision?.reason ?? ''}`.trim()
      answers[said] = (answers[said] ?? 0) + 1
      if (notificationId !== undefined && (answer?.status === 202 || answer?.status === 429))
        accepted.push(notificationId)
    }
  })
  return { accepted, answers, tookMs: tookMs.sort((a, b) => a - b) }
}

/** The value that this share of the sorted ones does not exceed, rounded. */
export const quantile = (sorted: readonly number[], share: number): number =>
  Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN)
