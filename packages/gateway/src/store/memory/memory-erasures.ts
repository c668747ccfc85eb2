/**
 * Erased recipients of the in-memory store. Their rows stay under another name, as in every store; here that name is
 * a number, since memory reveals nothing after the process ends.
 */
import { isFinal, type Notification, type Recipient } from '../../model.ts'
import { type ErasureResult, pseudonymPrefix, type StoredAnswer, type StoredRecipient } from '../../ports.ts'
import { erasedAnswer } from '../erased-answer.ts'
import type { MemoryCounts } from './memory-counts.ts'
import type { MemoryDigests } from './memory-digests.ts'
import type { MemoryFeedback } from './memory-feedback.ts'
import type { MemoryJobs } from './memory-jobs.ts'
import { keyOf } from './memory-keys.ts'
import { entry } from './memory-rows.ts'

export interface MemoryErasuresParts {
  readonly tenants: Map<string, Map<string, Notification>>
  readonly byRecipient: Map<string, Map<string, Set<string>>>
  readonly recipients: Map<string, Recipient>
  readonly answers: Map<string, StoredAnswer>
  readonly jobs: MemoryJobs
  readonly counts: MemoryCounts
  readonly open: Pick<MemoryDigests, 'all' | 'write'>
  readonly feedback: Pick<MemoryFeedback, 'forget'>
  /** Gives a written recipient its version, where several processes have the record. */
  readonly versioned: (recipient: Recipient) => Recipient
}

export class MemoryErasures {
  readonly #parts: MemoryErasuresParts
  readonly #names = new Map<string, string>()
  readonly #pending = new Map<string, { readonly tenant: string; readonly recipient: string }>()

  constructor(parts: MemoryErasuresParts) {
    this.#parts = parts
  }

  /** The pseudonym of an erased recipient; undefined for all others. */
  nameOf(tenant: string, recipient: string): string | undefined {
    return this.#names.get(keyOf(tenant, recipient))
  }

  /** The recipient on record, or what an erasure has left of it. */
  recipient(tenant: string, id: string): StoredRecipient | undefined {
    const { recipients } = this.#parts
    const known = recipients.get(keyOf(tenant, id))
    const found = recipients.get(keyOf(tenant, this.nameOf(tenant, id) ?? ''))
    if (known !== undefined || found === undefined) return known
    const { version, ...left } = found
    return { ...left, id, erased: left.id, ...(version === undefined ? {} : { left: version }) }
  }

  /** The pseudonym of a recipient who is being erased; undefined for all others. */
  pendingNameOf(tenant: string, recipient: string): string | undefined {
    return this.#pending.has(keyOf(tenant, recipient)) ? this.nameOf(tenant, recipient) : undefined
  }

  pending() {
    return [...this.#pending.values()]
  }

  begin(tenant: string, recipient: string): void {
    const key = keyOf(tenant, recipient)
    const name = entry(this.#names, key, () => `${pseudonymPrefix}${this.#names.size + 1}`)
    this.#pending.set(key, { tenant, recipient })
    const { recipients, jobs, versioned } = this.#parts
    const { optOuts = [] } = recipients.get(key) ?? {}
    recipients.delete(key)
    if (optOuts.length > 0) recipients.set(keyOf(tenant, name), versioned({ tenant, id: name, optOuts }))
    jobs.rename('running', tenant, recipient, name)
  }

  end(tenant: string, recipient: string): ErasureResult {
    if (!this.#pending.has(keyOf(tenant, recipient))) return { done: true }
    const { tenants, byRecipient, answers, counts, jobs, open: digests, feedback } = this.#parts
    const ofTenant = byRecipient.get(tenant)
    const ids = ofTenant?.get(recipient) ?? []
    const rows = Array.from(ids, (id) => tenants.get(tenant)!.get(id)).filter((row) => row !== undefined)
    const open = rows.filter(({ status }) => !isFinal(status))
    if (open.length > 0) return { done: false, open: open.map(({ id }) => id) }
    const name = this.nameOf(tenant, recipient)!
    for (const row of rows) {
      const after = anonymous(row, name)
      tenants.get(tenant)!.set(row.id, after)
      counts.add(row, -1)
      counts.add(after, 1)
      feedback.forget(tenant, row.id)
    }
    if (ofTenant?.delete(recipient)) {
      const named = entry(ofTenant, name, () => new Set())
      for (const id of ids) named.add(id)
    }
    for (const [key, answer] of answers) {
      if (answer.tenant === tenant)
        answers.set(key, { ...answer, body: erasedAnswer(answer.body, recipient, name) })
    }
    jobs.rename('refused', tenant, recipient, name)
    for (const digest of digests.all())
      if (digest.tenant === tenant && digest.recipient === recipient) digests.write('close', digest)
    this.#pending.delete(keyOf(tenant, recipient))
    return { done: true }
  }
}

function anonymous(row: Notification, name: string): Notification {
  const { content: _, data: _data, shared: _shared, bytes: _bytes, ...rest } = row
  const timeline = row.timeline.map(({ detail: _detail, ...event }) => event)
  return { ...rest, to: { id: name }, fingerprint: '', timeline }
}
