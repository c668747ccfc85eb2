/**
 * Changes to a recipient, one after the other: who reads, changes and writes must not lose what somebody else wrote
 * in between. Within this process each waits for the one before it of the same recipient.
 */

import type { Recipient } from '../model.ts'
import type { Store } from '../ports.ts'
import type { Gate } from '../stages.ts'

export interface RecipientEditor {
  /** Stores what `change` makes of the recipient (undefined: unknown so far) and answers it. Throws what `change` throws. */
  edit(tenant: string, id: string, change: ChangeRecipient): Promise<Recipient>
  /** Does something else with a recipient while nobody edits them. */
  alone(tenant: string, id: string, work: () => Promise<void>): Promise<void>
}

/** `wasErased`: then nothing is known before but the opt-outs. */
export type ChangeRecipient = (before: Recipient | undefined, wasErased: boolean) => Recipient

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
