/**
 * Erases a recipient: waiting notifications are cancelled, and stored ones keep counting in the limits without recipient
 * or content. A send attempt in flight cannot be cancelled; the erasure waits for its end. An erasure interrupted by a
 * crash is completed by the next process that starts, or by one that hears of the death, so that no recipient stays
 * erased in part. It is begun once: what is saved of a recipient after its beginning is of one who came back.
 */

import { SluiceError } from '../errors.ts'
import type { Members, Notifier } from '../ports/fleet.ts'
import type { Clock, Store } from '../ports.ts'
import type { Contents } from '../stages.ts'
import type { OpenDigests } from './digests/open-digests.ts'
import type { RecipientCache } from './recipient-cache.ts'

export interface ErasureOptions {
  readonly store: Pick<Store, 'beginErasure' | 'erase' | 'erasures'>
  readonly recipients: Pick<RecipientCache, 'forget'>
  readonly contents: Pick<Contents, 'forgetTenant'>
  /** Cancels a waiting notification; throws NOT_CANCELLABLE where a send attempt is in flight. */
  readonly cancel: (tenant: string, id: string) => Promise<void>
  readonly digests: Pick<OpenDigests, 'forgetRecipient'>
  /** Makes background batches read their remaining work again. */
  readonly rereadJobs: () => Promise<void>
  readonly notifier: Pick<Notifier, 'tell'>
  readonly members: Pick<Members, 'onDeath'>
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

export interface Erasure {
  /** Throws STORE_UNAVAILABLE where a send attempt takes long to end: then the erasure goes on in the background. */
  erase(tenant: string, recipient: string): Promise<void>
  /** Completes the erasures that earlier processes began, and from now on those of processes that die. */
  start(): Promise<void>
  stop(): void
}

/** How long a request waits for send attempts in flight: longer than a call to a provider usually takes (15 s). */
const waitMsMax = 20_000
const pollMs = 50
/** Retry delay of an erasure that could not end. */
const retryMs = 30_000

export function createErasure(options: ErasureOptions): Erasure {
  const { store, recipients, contents, cancel, digests, rereadJobs, notifier, members, clock } = options
  const { onError } = options
  let stopped = false
  let deaf = (): void => {}

  /** Cancels a notification; false where a send attempt is in flight. */
  async function tryCancel(tenant: string, id: string): Promise<boolean> {
    try {
      await cancel(tenant, id)
      return true
    } catch (error) {
      if (error instanceof SluiceError && error.code === 'NOT_CANCELLABLE') return false
      throw error
    }
  }

  const pause = (): Promise<void> => new Promise((resolve) => clock.at(clock.now() + pollMs, resolve))

  async function begin(tenant: string, recipient: string): Promise<void> {
    try {
      await store.beginErasure(tenant, recipient)
    } finally {
      recipients.forget(tenant, recipient)
      notifier.tell({ topic: 'recipient', tenant, recipient })
    }
    await rereadJobs()
  }

  /** Tells of a failure, and does the work later. */
  function later(what: string, error: unknown, work: () => Promise<void>): void {
    if (stopped) return
    onError(what, error)
    clock.at(clock.now() + retryMs, () => {
      if (!stopped) work().catch(() => {})
    })
  }

  async function complete(tenant: string, recipient: string): Promise<void> {
    const begun = clock.now()
    while (!stopped) {
      const result = await store.erase(tenant, recipient)
      if (result.done) {
        // The cache cannot tell which contents were this recipient's; the others are read again when needed.
        contents.forgetTenant(tenant)
        digests.forgetRecipient(tenant, recipient)
        return
      }
      let sending = 0
      for (const id of result.open) if (!(await tryCancel(tenant, id))) sending += 1
      if (clock.now() - begun >= waitMsMax) break
      // The list is one page: the erasure pauses only where no notification on it could be cancelled.
      if (sending === result.open.length) await pause()
    }
    throw new SluiceError(
      'STORE_UNAVAILABLE',
      'A message to this person is with a provider. What is left is erased when that has ended; ask again to know.',
      { retryAfterMs: retryMs },
    )
  }

  async function completeInTime(tenant: string, recipient: string): Promise<void> {
    try {
      await complete(tenant, recipient)
    } catch (error) {
      later('erase a person', error, () => completeInTime(tenant, recipient))
      throw error
    }
  }

  async function resume(): Promise<void> {
    for (const { tenant, recipient } of await store.erasures())
      completeInTime(tenant, recipient).catch(() => {})
  }

  /** Completes what is on record, also of processes that died. */
  async function look(): Promise<void> {
    try {
      await resume()
    } catch (error) {
      later('look for erasures that were begun', error, look)
    }
  }

  return {
    async erase(tenant, recipient) {
      try {
        await begin(tenant, recipient)
      } catch (error) {
        // Where its answer was lost, the record has it: begun again, it would take what was saved meanwhile.
        later('erase a person', error, () => rereadJobs().then(look))
        throw error
      }
      await completeInTime(tenant, recipient)
    },
    async start() {
      deaf = members.onDeath(() => void look())
      await resume()
    },
    stop() {
      stopped = true
      deaf()
    },
  }
}
