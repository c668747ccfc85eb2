/**
 * Caches content that is stored apart from its notifications, for those that are sent next. Content just accepted or
 * recently sent is in memory, up to a number of bytes; other content is read when needed.
 */
import { forgetJson, joinedPayload, type Payload, type SharedContent } from '../content.ts'
import { SluiceError } from '../errors.ts'
import type { Store } from '../ports.ts'
import type { Contents } from '../stages.ts'

export interface ContentsOptions {
  readonly store: Pick<Store, 'content'>
  /**
   * Bytes of JSON and entries kept in memory; a single content that is larger is kept alone.
   *
   * @defaultValue 32 MiB
   */
  readonly bytesMax?: number
}

/**
 * Memory of an entry besides its text: 175 to 200 B were measured. Short content would otherwise count as next to
 * nothing.
 */
const entryBytes = 200

const sizeOf = ({ bytes }: SharedContent): number => entryBytes + bytes

export function createContents({ store, bytesMax = 2 ** 25 }: ContentsOptions): Contents {
  /** Contents by id, in LRU order: the most recently used is last. */
  const kept = new Map<string, SharedContent>()
  let bytes = 0
  /** Reads in progress, shared by all notifications that wait for the same content. */
  const loading = new Map<string, Promise<SharedContent>>()

  function keep(content: SharedContent): void {
    forgetJson(content)
    forget(content.id)
    kept.set(content.id, content)
    bytes += sizeOf(content)
    for (const id of kept.keys()) {
      if (bytes <= bytesMax || kept.size === 1) return
      forget(id)
    }
  }

  function forget(id: string): void {
    const content = kept.get(id)
    if (content !== undefined && kept.delete(id)) bytes -= sizeOf(content)
  }

  function find(tenant: string, id: string): SharedContent | Promise<SharedContent> {
    const content = kept.get(id)
    if (content === undefined) return loading.get(id) ?? load(tenant, id)
    kept.delete(id)
    kept.set(id, content)
    return content
  }

  function load(tenant: string, id: string): Promise<SharedContent> {
    const found = store
      .content(tenant, id)
      .then((content) => {
        if (content === undefined) throw new SluiceError('NOT_FOUND', `The content ${id} is gone.`)
        keep(content)
        return content
      })
      .finally(() => loading.delete(id))
    loading.set(id, found)
    return found
  }

  return {
    keep,
    forget,
    forgetTenant(tenant) {
      for (const [id, content] of kept) if (content.tenant === tenant) forget(id)
    },
    find,
    of(notification): Payload | Promise<Payload> {
      const { tenant, shared } = notification
      if (shared === undefined) return notification
      const content = find(tenant, shared.id)
      return content instanceof Promise
        ? content.then((loaded) => joinedPayload(notification, loaded))
        : joinedPayload(notification, content)
    },
  }
}
