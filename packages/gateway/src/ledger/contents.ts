/**
 * The content that stands on record apart from its notifications, at hand for those that are sent next. What was just
 * accepted and what was sent of late is in memory, up to a number of bytes; everything else is read when it is needed.
 */
import { forgetJson, joinedPayload, type Payload, type SharedContent } from '../content.ts'
import { SluiceError } from '../errors.ts'
import type { Store } from '../ports.ts'
import type { Contents } from '../stages.ts'

export interface ContentsOptions {
  readonly store: Pick<Store, 'content'>
  /**
   * Of JSON and for its entry, kept in memory at most; a single one that is larger is kept alone.
   *
   * @defaultValue 32 MiB
   */
  readonly bytesMax?: number
}

/** Besides its text: 175 to 200 B were measured. A content of few characters would else count as next to nothing. */
const entryBytes = 200

const sizeOf = ({ bytes }: SharedContent): number => entryBytes + bytes

export function createContents({ store, bytesMax = 2 ** 25 }: ContentsOptions): Contents {
  /** The one that was used last stands last. */
  const kept = new Map<string, SharedContent>()
  let bytes = 0
  /** Several notifications may wait for the same. */
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
