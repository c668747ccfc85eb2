/**
 * Serialises changes to a recipient, so that two concurrent read-modify-writes lose nothing. Within this
 * process each waits for the one before it of the same recipient.
 */

import type { Recipient } from '../model.ts'
import type { Store } from '../ports.ts'
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

export interface RecipientEditorOptions {
  readonly gate: Pick<Gate, 'saveRecipient'>
  readonly store: Pick<Store, 'recipient'>
}

export function createRecipientEditor(options: RecipientEditorOptions): RecipientEditor {
  const { gate, store } = options
  const last = new Map<string, Promise<unknown>>()

  async function editNow(tenant: string, id: string, change: ChangeRecipient): Promise<Recipient> {
    const { erased = false, ...before } = (await store.recipient(tenant, id)) ?? { id: undefined }
    const after = change(before.id === undefined ? undefined : (before as Recipient), erased)
    await gate.saveRecipient(after)
    return after
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
