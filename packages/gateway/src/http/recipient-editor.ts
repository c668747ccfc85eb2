/**
 * Serialises changes to a recipient, so that two concurrent read-modify-writes lose nothing. Within this
 * process each waits for the one before it of the same recipient; one that another process has overtaken reads again.
 */

import { conflicted, retryOnConflict } from '../conflict.ts'
import { SluiceError } from '../errors.ts'
import type { Recipient } from '../model.ts'
import type { ReportedOf } from '../ports/recipients.ts'
import type { RecipientKey, Store, StoredRecipient } from '../ports.ts'
import type { Gate } from '../stages.ts'

export interface RecipientEditor {
  /**
   * Stores the result of `change` and returns it; the recipient before is undefined where unknown. Throws the
   * errors of `change`, and NOT_FOUND where a notification of which this was reported has another recipient: an erased one.
   */
  edit(
    tenant: string,
    id: string,
    change: ChangeRecipient,
    reportedOf?: readonly ReportedOf[],
  ): Promise<StoredRecipient>
  /** Runs other work on a recipient while no edit of them runs. */
  alone(tenant: string, id: string, work: () => Promise<void>): Promise<void>
}

/**
 * `erased`: nothing is known before except the opt-outs, which stand under this name. What is returned with such a name stays
 * an erased recipient, of whom the opt-outs alone are stored.
 */
type ChangeRecipient = (before: Recipient | undefined, erased: string | undefined) => StoredRecipient

export function createRecipientEditor(options: {
  readonly gate: Pick<Gate, 'saveRecipient'>
  readonly store: Pick<Store, 'recipients' | 'isVersioned'>
}): RecipientEditor {
  const { gate, store } = options
  const last = new Map<string, Promise<unknown>>()
  const read = createSharedRead(store)

  async function editNow(
    tenant: string,
    id: string,
    change: ChangeRecipient,
    reportedOf?: readonly ReportedOf[],
  ): Promise<StoredRecipient> {
    const after = await retryOnConflict(async () => {
      const stored: Partial<StoredRecipient> = (await read({ tenant, recipient: id })) ?? {}
      const { erased, left = 0, version = left, ...before } = stored
      const changed = change(before.id === undefined ? undefined : (before as Recipient), erased)
      const saved = store.isVersioned ? { ...changed, version } : changed
      const isSaved = await gate.saveRecipient(saved, reportedOf)
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
    edit: (tenant, id, change, reportedOf) =>
      inTurn(tenant, id, () => editNow(tenant, id, change, reportedOf)),
    alone: inTurn,
  }
}

/** Recipients that one question asks for at most. */
const readMax = 1_000

interface WaitingRead {
  readonly key: RecipientKey
  readonly resolve: (recipient: StoredRecipient | undefined) => void
  readonly reject: (error: unknown) => void
}

/** Reads recipients; what is asked for in the same turn of the event loop is one question to the store. */
function createSharedRead(store: Pick<Store, 'recipients'>) {
  let waiting: WaitingRead[] = []

  async function ask(): Promise<void> {
    const asked = waiting
    waiting = []
    if (asked.length === 0) return
    try {
      const found = await store.recipients(asked.map(({ key }) => key))
      for (const [index, { resolve, reject }] of asked.entries()) {
        const recipient = found[index]
        if (recipient instanceof Error) reject(recipient)
        else resolve(recipient)
      }
    } catch (error) {
      for (const { reject } of asked) reject(error)
    }
  }

  return (key: RecipientKey): Promise<StoredRecipient | undefined> =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) queueMicrotask(() => void ask())
      waiting.push({ key, resolve, reject })
      if (waiting.length === readMax) void ask()
    })
}
