/** The state of a sequence of several processes: who lives, what is on record, and a change that both records are given. */

import { epoch } from '../../../src/conformance/store/sample.ts'
import { type Digest, isFinal, type Job, type Notification } from '../../../src/model.ts'
import type { TenantRecords } from '../../../src/ports/tenants.ts'
import type { Change, Conflict } from '../../../src/ports.ts'
import { createComparison, type Member } from './fleet-pair.ts'
import { createTraffic } from './fleet-traffic.ts'

/** The record of a fleet in memory, which is the model, and on an engine. */
export interface FleetPair {
  join(): Promise<Member>
  kill(member: Member): Promise<void>
  /** Folds the counts of a dead process, and answers if nothing was held by it any more: the model and the engine. */
  settleDead(member: Member): Promise<readonly [boolean, boolean]>
  readonly records: readonly [TenantRecords, TenantRecords]
}

export type FleetWorld = ReturnType<typeof createFleetWorld>

/** @param chance gives numbers from 0 to 1 that depend on the seed alone */
export function createFleetWorld(chance: () => number, pair: FleetPair) {
  let step = 0
  const now = (): number => epoch + step
  const digests: Digest[] = []
  const traffic = createTraffic({ chance, now, digests })
  const { below, pick } = traffic
  const compare = createComparison(() => `at step ${step}`)
  /** Notifications as they are on record. */
  const rows = new Map<string, Notification>()
  const jobs: Job[] = []
  /** Processes that live, those that were declared dead and do not know it, and those that have closed their store. */
  const members: Member[] = []
  const dead: Member[] = []
  const closed: Member[] = []
  /** Changes that were asked for, whatever became of them. */
  const tried: Change[] = []
  const counts = {
    applied: 0,
    refused: 0,
    killed: 0,
    closed: 0,
    claimed: 0,
    begun: 0,
    takenOver: 0,
    taken: 0,
  }

  /** A dead process hears of its death alone. */
  const outcomeOf = (conflicts: readonly Conflict[]) =>
    conflicts.some(({ kind }) => kind === 'member')
      ? 'member'
      : [...new Set(conflicts.map(({ kind, key }) => `${kind} ${key}`))].sort()

  return {
    ...traffic,
    pair,
    compare,
    rows,
    digests,
    jobs,
    members,
    dead,
    closed,
    tried,
    counts,
    now,
    nextStep: () => {
      step += 1
    },
    living: () => pick(members),
    /** One that lives, or seldom one that is dead. */
    anyMember: () => (dead.length > 0 && below(12) === 0 ? pick(dead) : pick(members)),
    waiting: () => [...rows.values()].filter(({ status }) => !isFinal(status) && status !== 'digesting'),
    itemsOf: ({ id }: Digest) =>
      [...rows.values()].filter(({ status, digestId }) => status === 'digesting' && digestId === id),

    /** Commits a change at both; true where it was applied. */
    async commit(member: Member, change: Change): Promise<boolean> {
      const result = await compare(
        `commit ${JSON.stringify(change).slice(0, 4_000)}`,
        member,
        (store) => store.commit(change),
        (answer) => (answer.applied ? 'applied' : outcomeOf(answer.conflicts)),
      )
      tried.push(change)
      if (result?.[0].applied !== true) {
        counts.refused += 1
        return false
      }
      counts.applied += 1
      for (const each of change.accept ?? []) rows.set(each.id, each)
      for (const { after } of change.moves ?? []) rows.set(after.id, after)
      return true
    },
  }
}
