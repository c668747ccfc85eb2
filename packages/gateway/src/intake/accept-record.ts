/**
 * Accepts one record through the gate, exactly once: the commit that accepts it writes a stored answer that is named
 * after its position, or after the caller's own key, and a store writes such a name once (decision 0040). A record that
 * cannot be accepted now stays in its topic, so that a waiting one takes no memory here.
 */
import { SluiceError } from '../errors.ts'
import type { DraftReader } from '../http/draft-checks.ts'
import { type IntakeRecord, type PoisonRecord, poisonBytesMax } from '../ports/intake.ts'
import type { Clock, Store } from '../ports.ts'
import type { Gate } from '../stages.ts'
import type { IntakePace } from './pace.ts'
import { type IntakeMessage, type ReadRecord, readRecord, tenantOf } from './read-record.ts'

export interface AcceptRecordOptions {
  readonly gate: Pick<Gate, 'admit'>
  readonly store: Pick<Store, 'answer'> & { readonly intake: Pick<IntakeRecord, 'keepPoison'> }
  readonly readDraft: DraftReader
  readonly pace: IntakePace
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly onError: (what: string, error: unknown) => void
}

/**
 * `repeated`: it was accepted before, from here or under the same key. `full`: its tenant or its channel has no room now.
 * `unavailable`: the store or the limits do not answer. A record with one of the last two stays in the topic.
 */
export type RecordOutcome = 'accepted' | 'repeated' | 'poison' | 'full' | 'unavailable'

export interface RecordAcceptor {
  /** Accepts a record or keeps it as poison, and resolves when that is on disk; or leaves it in the topic. */
  accept(message: IntakeMessage): Promise<RecordOutcome>
}

/** A tenant that was found full is not asked for again so long, ms. */
const fullMs = 1_000
/** Tenants that are known to be full at most; those after them are asked for with each record. */
const fullMax = 10_000
/** An error without a code is a defect: the record is kept as poison after so many tries, and the log has the cause. */
const defectsMax = 3
/** The delay before another try after a defect, ms. */
const defectMs = 1_000

export function createRecordAcceptor(options: AcceptRecordOptions): RecordAcceptor {
  const { gate, store, readDraft, pace, clock, onError } = options
  /** The instants until which tenants count as full. */
  const fullUntil = new Map<string, number>()

  function isFull(tenant: string): boolean {
    const until = fullUntil.get(tenant)
    if (until === undefined) return false
    if (clock.now() < until) return true
    fullUntil.delete(tenant)
    return false
  }

  async function acceptPaced(record: ReadRecord, timestamp: number): Promise<RecordOutcome> {
    if (isFull(record.caller.tenant)) return 'full'
    const end = pace.begin(record.body.channel, timestamp)
    if (end === undefined) return 'full'
    return acceptOnce(record).finally(end)
  }

  async function acceptOnce(record: ReadRecord): Promise<RecordOutcome> {
    const { caller, body, bytes, answerKey, requestHash } = record
    if (await isRepeated(answerKey, requestHash)) return 'repeated'
    try {
      await gate.admit({
        caller,
        drafts: [await readDraft(body, caller.tenant, bytes)],
        answer: () => ({ ...answerKey, requestHash, status: 202, body: '', createdAt: clock.now() }),
      })
      return 'accepted'
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
      if (error.code === 'IDEMPOTENCY_IN_PROGRESS' && (await isRepeated(answerKey, requestHash)))
        return 'repeated'
      if (error.code !== 'QUEUE_FULL') throw error
      if (fullUntil.size < fullMax) fullUntil.set(caller.tenant, clock.now() + fullMs)
      return 'full'
    }
  }

  async function isRepeated(key: ReadRecord['answerKey'], requestHash: string): Promise<boolean> {
    const stored = await store.answer(key)
    if (stored === undefined) return false
    if (stored.requestHash === requestHash) return true
    throw new SluiceError('IDEMPOTENCY_MISMATCH', 'This key came with another body before.')
  }

  async function keepPoison(message: IntakeMessage, error: unknown): Promise<RecordOutcome> {
    const { topic, topicId, partition, offset, value } = message
    const tenant = tenantOf(message)
    const detail = error instanceof SluiceError ? error.message : 'The log of the gateway has the cause.'
    const record: PoisonRecord = {
      topic,
      topicId,
      partition,
      offset,
      ...(tenant === undefined ? {} : { tenant }),
      detail,
      bytes: Uint8Array.from(value?.subarray(0, poisonBytesMax) ?? []),
      size: value?.length ?? 0,
      at: clock.now(),
    }
    await store.intake.keepPoison([record])
    return 'poison'
  }

  /** @throws what a retry may mend, and defects */
  async function settle(message: IntakeMessage, isLastTry: boolean): Promise<RecordOutcome> {
    try {
      return await acceptPaced(readRecord(message), message.timestamp)
    } catch (error) {
      if (error instanceof SluiceError ? error.retryable : !isLastTry) throw error
      return keepPoison(message, error)
    }
  }

  return {
    async accept(message) {
      for (let tries = 1; ; tries += 1) {
        try {
          return await settle(message, tries === defectsMax)
        } catch (error) {
          if (error instanceof SluiceError && error.retryable) return 'unavailable'
          onError(`take the record ${message.topic}/${message.partition}/${message.offset}`, error)
          if (tries === defectsMax) return 'unavailable'
          await new Promise<void>((resolve) => {
            clock.at(clock.now() + defectMs, resolve)
          })
        }
      }
    },
  }
}
