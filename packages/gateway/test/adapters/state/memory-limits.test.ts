/** The limits of recipients in memory: the suites of their port. */
import { createMemoryState } from '../../../src/adapters/state/memory.ts'
import { exerciseLimits, type OpenLimits, type SubjectFacts } from '../../../src/conformance/limits.ts'
import { exerciseForcedCounts } from '../../../src/conformance/limits-forced.ts'
import { exerciseLimitsRecord } from '../../../src/conformance/limits-record.ts'
import type { Subject } from '../../../src/ports.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

function open(): OpenLimits {
  const clock = createVirtualClock(1_000_000)
  const record = new Map<string, SubjectFacts>()
  const reads: Subject[] = []
  const outdated: Subject[] = []
  const state = createMemoryState({
    clock,
    marginMs: 20,
    recover(subject) {
      reads.push(subject)
      return { entries: [], fingerprints: [], waitlist: [], ...record.get(subject.key) }
    },
    onOutdated: (subject) => outdated.push(subject),
  })
  return {
    state,
    now: clock.now,
    until: (at) => clock.runUntil(at),
    record,
    reads,
    outdated,
    renew: state.renew,
  }
}

exerciseLimits('Limits of recipients in memory', open)
exerciseForcedCounts('Forced counts of recipients in memory', open)
exerciseLimitsRecord('Limits of recipients in memory beside their record', open)
