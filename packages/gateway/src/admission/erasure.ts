/**
 * Erases a recipient: what waits for them is cancelled, and what is on record keeps its place in the counts without saying
 * whose it is or what it said. A call that is with a provider cannot be taken back; the erasure waits for its end. One
 * that a crash cuts off is begun again at the next start, so that nobody stays erased in part.
 */

import { SluiceError } from '../errors.ts'
import type { Clock, Store } from '../ports.ts'
import type { Contents } from '../stages.ts'
import type { RecipientCache } from './recipient-cache.ts'

export interface ErasureOptions {
  readonly store: Pick<Store, 'beginErasure' | 'erase' | 'erasures'>
  readonly recipients: Pick<RecipientCache, 'forget'>
  readonly contents: Pick<Contents, 'forgetTenant'>
  /** Ends one that waits; throws NOT_CANCELLABLE for what is with a provider. */
  readonly cancel: (tenant: string, id: string) => Promise<void>
  /** Batches in the background read again what they have to do. */
  readonly rereadJobs: () => Promise<void>
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

export interface Erasure {
  /** Throws STORE_UNAVAILABLE where a call takes long to end: then the erasure goes on by itself. */
  erase(tenant: string, recipient: string): Promise<void>
  /** Takes up what an earlier process began. */
  start(): Promise<void>
  stop(): void
}

/** Longer than a call to a provider may usually take (15 s). */
const patienceMs = 20_000
const lookAgainMs = 50
/** Until an erasure that could not end is tried again. */
const againMs = 30_000

export function createErasure(options: ErasureOptions): Erasure {
  const { store, recipients, contents, cancel, rereadJobs, clock, onError } = options
  let stopped = false

  /** False where it has left. */
  async function isCancelled(tenant: string, id: string): Promise<boolean> {
    try {
      await cancel(tenant, id)
      return true
    } catch (error) {
      if (error instanceof SluiceError && error.code === 'NOT_CANCELLABLE') return false
      throw error
    }
  }

  const pause = (): Promise<void> => new Promise((resolve) => clock.at(clock.now() + lookAgainMs, resolve))

  async function eraseNow(tenant: string, recipient: string): Promise<void> {
    await store.beginErasure(tenant, recipient)
    recipients.forget(tenant, recipient)
    await rereadJobs()
    const begun = clock.now()
    while (!stopped) {
      const result = await store.erase(tenant, recipient)
      if (result.done) {
        // Only the record knew which were this recipient's; the others are read again when they are needed.
        contents.forgetTenant(tenant)
        return
      }
      let sending = 0
      for (const id of result.open) if (!(await isCancelled(tenant, id))) sending += 1
      if (clock.now() - begun >= patienceMs) break
      // Those that are named are not all; only where none of them could be ended there is something to wait for.
      if (sending === result.open.length) await pause()
    }
    throw new SluiceError(
      'STORE_UNAVAILABLE',
      'A message to this person is with a provider. What is left is erased when that has ended; ask again to know.',
      { retryAfterMs: againMs },
    )
  }

  function goOnLater(tenant: string, recipient: string, error: unknown): void {
    if (stopped) return
    onError('erase a person', error)
    clock.at(clock.now() + againMs, () => {
      if (!stopped) eraseNow(tenant, recipient).catch((again) => goOnLater(tenant, recipient, again))
    })
  }

  return {
    async erase(tenant, recipient) {
      try {
        await eraseNow(tenant, recipient)
      } catch (error) {
        goOnLater(tenant, recipient, error)
        throw error
      }
    },
    async start() {
      for (const { tenant, recipient } of await store.erasures())
        eraseNow(tenant, recipient).catch((error) => goOnLater(tenant, recipient, error))
    },
    stop() {
      stopped = true
    },
  }
}
