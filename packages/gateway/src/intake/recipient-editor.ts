/**
 * Changes to a person, one after the other: who reads, changes and writes must not lose what somebody else wrote
 * in between. Within this process each waits for the one before it of the same person.
 */

import type { Gate } from '../doors.ts'
import type { Recipient } from '../model.ts'
import type { Store } from '../ports.ts'

export interface RecipientEditor {
  /** Stores what `change` makes of the person (undefined: unknown so far) and answers it. Throws what `change` throws. */
  edit(tenant: string, id: string, change: (before: Recipient | undefined) => Recipient): Promise<Recipient>
}

export interface RecipientEditorOptions {
  readonly gate: Pick<Gate, 'saveRecipient'>
  readonly store: Pick<Store, 'recipient'>
}

export function createRecipientEditor(options: RecipientEditorOptions): RecipientEditor {
  const { gate, store } = options
  const last = new Map<string, Promise<unknown>>()

  async function editNow(
    tenant: string,
    id: string,
    change: (before: Recipient | undefined) => Recipient,
  ): Promise<Recipient> {
    const after = change(await store.recipient(tenant, id))
    await gate.saveRecipient(after)
    return after
  }

  return {
    async edit(tenant, id, change) {
      const key = `${tenant}\n${id}`
      const before = last.get(key) ?? Promise.resolve()
      const mine = before.then(
        () => editNow(tenant, id, change),
        () => editNow(tenant, id, change),
      )
      last.set(key, mine)
      try {
        return await mine
      } finally {
        if (last.get(key) === mine) last.delete(key)
      }
    },
  }
}
