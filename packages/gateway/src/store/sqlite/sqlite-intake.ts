/** The record of intakes in the embedded store: it goes to the engine in transactions of its own. */
import type { IntakeRecord } from '../../ports/intake.ts'
import type { SqliteFeedbackOptions } from './sqlite-feedback.ts'

/** Rows that are removed in one transaction. */
const pruneSlice = 100

export function createSqliteIntake(options: Omit<SqliteFeedbackOptions, 'pageOf'>): IntakeRecord {
  const { ask, read, onDamaged, untilDone } = options
  return {
    positions: (topicId) => read('intakePositions', topicId),
    advance: (positions) => ask('advanceIntake', positions),
    keepPoison: (records) => ask('keepPoison', records),
    async poison(query) {
      const { found, damaged, nextCursor } = await read('poison', query)
      for (const what of damaged) onDamaged(what)
      return { items: found, nextCursor }
    },
    countPoison: () => read('countPoison'),
    async prunePoison(before) {
      let rows = 0
      await untilDone(async () => {
        const dropped = await ask('prunePoison', before, pruneSlice)
        rows += dropped
        return dropped < pruneSlice
      })
      return rows
    },
  }
}
