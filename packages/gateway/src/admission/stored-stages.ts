/**
 * The stages of the complaint guard on record: each is a hold of notifications under a name that no operator can give, and
 * what it needs besides stands in its words as JSON.
 */
import { complaintHoldPrefix, type HoldRecord, type HoldWrite } from '../ports.ts'
import type { ComplaintStage } from '../reports.ts'
import type { Ledger } from '../stages.ts'

export interface StoredStage {
  readonly tenant: string
  readonly category: string
  readonly stage: ComplaintStage
  readonly since: number
  /** Departures in the hour before it was slowed or paused first. */
  readonly departuresPerHour: number
}

function writeOf({ tenant, category, stage, since, departuresPerHour }: StoredStage): HoldWrite {
  const name = `${complaintHoldPrefix}${category}/${tenant}`
  if (stage === 'free') return { kind: 'end', name }
  const reason = JSON.stringify({ stage, departuresPerHour })
  // It ends when the counts say so.
  return { kind: 'put', hold: { name, tenant, category, since, until: Number.MAX_SAFE_INTEGER, reason } }
}

export function storedStages(holds: readonly HoldRecord[]): readonly StoredStage[] {
  return holds.flatMap(({ name, tenant, category, since, reason }) => {
    if (!name.startsWith(complaintHoldPrefix) || tenant === undefined || category === undefined) return []
    const { stage, departuresPerHour } = JSON.parse(reason) as Pick<
      StoredStage,
      'stage' | 'departuresPerHour'
    >
    return [{ tenant, category, stage, since, departuresPerHour }]
  })
}

export interface StageWriterOptions {
  readonly ledger: Pick<Ledger, 'commit'>
  /** Called after each write. */
  readonly onWritten: (() => void) | undefined
  readonly onError: (what: string, error: unknown) => void
}

export interface StageWriter {
  /** Writes a stage after the writes before. */
  write(stored: StoredStage, onFailure?: () => void): void
  /** Resolves when all is written. */
  written(): Promise<void>
}

export function createStageWriter({ ledger, onWritten, onError }: StageWriterOptions): StageWriter {
  let writing = Promise.resolve()
  return {
    write(stored, onFailure) {
      const hold = writeOf(stored)
      writing = writing
        .then(() => ledger.commit({ holds: [hold] }))
        .then(() => onWritten?.())
        .catch((error: unknown) => {
          onFailure?.()
          onError('write the stage of the complaint guard', error)
        })
    },
    written: () => writing,
  }
}
