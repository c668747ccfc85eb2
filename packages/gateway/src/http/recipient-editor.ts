/**
 * Serialises changes to a recipient, so that two concurrent read-modify-writes lose nothing. Within this
 * process each waits for the one before it of the same recipient; one that another process has overtaken reads again.
 */

import { conflicted, retryOnConflict } from '../conflict.ts'
import { SluiceError } from '../errors.ts'
import type { Recipient } from '../model.ts'
import type { Store, StoredRecipient } from '../ports.ts'
import type { Gate } from '../stages.ts'

export interface RecipientEditor {
  /**
   * Stores the result of `change` and returns it; the recipient before is undefined where unknown. Throws the
   * errors of `change`.
   */
  edit(tenant: string, id: string, change: ChangeRecipient): Promise<Recipient>
  /** Runs other work on a recipient while no edit of them runs. */
  alone(tenant: string, id: string, work: () => Promise<void>): Promise<void>
}

/** `wasErased`: nothing is known before except the opt-outs. */
type ChangeRecipient = (before: Recipient | undefined, wasErased: boolean) => Recipient

export function createRecipientEditor(options: {
  readonly gate: Pick<Gate, 'saveRecipient'>
  readonly store: Pick<Store, 'recipient' | 'isVersioned'>
}): RecipientEditor {
  const { gate, store } = options
  const last = new Map<string, Promise<unknown>>()

  async function editNow(tenant: string, id: string, change: ChangeRecipient): Promise<Recipient> {
    const after = await retryOnConflict(async () => {
      const stored: Partial<StoredRecipient> = (await store.recipient(tenant, id)) ?? {}
      const { erased = false, version = 0, ...before } = stored
      const changed = change(before.id === undefined ? undefined : (before as Recipient), erased)
      const isSaved = await gate.saveRecipient(store.isVersioned ? { ...changed, version } : changed)
      return isSaved ? changed : conflicted
    })
    if (after !== conflicted) return after
    throw new SluiceError('STORE_UNAVAILABLE', 'The recipient met too many changes at once. Try again.', {
      retryAfterMs: 1_000,
    })
  }

  async function inTurn<T>(tenant: string, id: string, work: () => Promise<T>): Promise<T> {
    const key = `${tenant}\n${id}`
    const before = last.get(key) ?? Promise.resolve()
    const mine = before.then(work, work)
    last.set(key, mine)
    try {
      return await mine
    } finally {
      if (last.get(key) === mine) last.delete(key)
    }
  }

  return {
    edit: (tenant, id, change) => inTurn(tenant, id, () => editNow(tenant, id, change)),
    alone: inTurn,
  }
}
