/** The oracles of a run together. They are told of births and deaths, and look again when the run is calm and at its end. */
import type { Gateway } from '../../src/gateway.ts'
import { statuses } from '../../src/model.ts'
import { keptForGood } from './memory-watch.ts'
import type { Watched } from './oracle.ts'
import { watchAccounts } from './oracle-accounts.ts'
import { createCalm, type Span } from './oracle-calm.ts'
import { watchClient } from './oracle-client.ts'
import { watchFleet } from './oracle-fleet.ts'
import { watchFleetAccounts } from './oracle-fleet-accounts.ts'
import { watchHolds } from './oracle-holds.ts'
import { watchLateness } from './oracle-lateness.ts'
import { watchOrder } from './oracle-order.ts'
import { watchOvertaking } from './oracle-overtaking.ts'
import { watchRates } from './oracle-rates.ts'
import { hasEnded, watchRecord } from './oracle-record.ts'
import { watchWindows } from './oracle-windows.ts'
import type { Death, SimProcess } from './process.ts'
import { actors, recipients, second, tenants } from './settings.ts'
import type { SimFleetRecord } from './sim-fleet-record.ts'

export interface Oracles<Open> {
  died(process: number, how: Death): void
  /** True if nothing waits any more. */
  isQuiet(): boolean
  /** Looks at the gateways in which everything has come to its end. */
  calm(open: Open): Promise<void>
  end(): void
  accepted(): number
  /** Calls whose earliest instant was searched. */
  lookedAt(): number
}

/** A process that takes requests, with its gateway. */
interface Living {
  readonly process: SimProcess
  readonly gateway: Gateway
}

const subjectsMax = 2 * tenants.length * (recipients.length + actors.length)
/**
 * Maps that may keep what is final, and how many of each there may be. What a map of these holds at most stands where
 * the gateway makes it.
 */
const bounded: ReadonlyMap<string, number> = new Map([
  // Calls that count in a window, and fingerprints, of each subject.
  ['@sluice/limits stores/memory.ts subjects', 1],
  ['@sluice/limits stores/expiry.ts buckets', 1],
  ['@sluice/limits stores/subject.ts this.ids', subjectsMax],
  ['adapters/state/subject-cache.ts subjects', 1],
  ['adapters/state/memory.ts fingerprints', subjectsMax],
  ['adapters/state/memory.ts subject.fingerprints', subjectsMax],
  ['adapters/state/packed-subjects.ts texts', 1],
  // The contents that were used last, 32 MiB of them.
  ['ledger/contents.ts kept', 1],
  // 10,000 ids each: looked for and not on record; whose decision, closing or call has failed, until it is repeated.
  ['admission/unrecorded.ts subjects', 1],
  ['admission/decision-retries.ts failures', 1],
  ['admission/digests/digest-closer.ts failures', 1],
  ['delivery/retry.ts failedBy', 1],
  ['delivery/quarantine.ts failures', 1],
  // 100,000 instants that were planned for what became due while no gateway ran.
  ['admission/overdue.ts plans', 1],
  // Without a place after a failure, until the next look at the subject: 128 of each of 10,000 subjects.
  ['admission/hold-order.ts unbooked', subjectsMax],
  // A digest that closed while its subject was read from the record: until the next look at those who wait there.
  ['adapters/state/memory.ts waitlist', subjectsMax],
])
/** Timers of a gateway in which nothing waits: four that look again and again, and some that look once more. */
const timersMax = 8

/** A request of a calm run is answered within this, ms. */
const answerMsMax = 60 * second

/** Oracles of what one gateway and several promise alike. */
function createCommon(watched: Watched) {
  const { world, client } = watched
  const windows = watchWindows(watched)
  watchHolds(watched)
  const record = watchRecord(watched)
  const told = watchClient(watched, record)
  const rates = watchRates(watched, record)
  const { rows, jobs } = record

  const unsettled = () => [...rows.values()].filter((row) => !hasEnded(row))
  const overdue = () => client.waiting().filter(({ sentAt }) => sentAt + answerMsMax < world.now())

  function checkEnds(): void {
    for (const { id, status, dueAt } of unsettled())
      world.violate('3 end', `${id} is still ${status}, due at ${dueAt - world.start} ms`)
    for (const { kind, operation, sentAt } of overdue())
      world.violate('3 answer', `${kind} ${operation} of ${sentAt - world.start} ms was never answered`)
    for (const { id, status, taken, total } of jobs.values()) {
      if (status === 'running') world.violate('3 job', `job ${id} still runs: ${taken} of ${total}`)
      const members = [...rows.values()].filter(({ job }) => job === id).length
      if (members > total) world.violate('10 job', `job ${id} of ${total} has ${members} notifications`)
    }
  }

  function checkCancelled(): void {
    for (const [id] of told.cancelled) {
      const { status } = rows.get(id) ?? {}
      if (status !== 'cancelled')
        world.violate('5 cancelled', `${id} was answered 204 and ended as ${status}`)
    }
  }

  return {
    windows,
    record,
    told,
    unsettled,
    checkEnds,
    isQuiet: () =>
      unsettled().length === 0 &&
      client.waiting().length === 0 &&
      [...jobs.values()].every(({ status }) => status !== 'running'),
    end() {
      rates.check(told.told)
      checkCancelled()
    },
  }
}

/**
 * A call of several gateways is late behind this, ms: besides what one gateway may take, tokens of an account are asked
 * for at the end of a slot, and the state of a recipient is read over a wire.
 */
export const fleetLateMsMax = 300
/** All processes have started, and the accounts are in use, ms after the start. */
const bornMs = 3 * second

export interface FleetOracles extends Oracles<readonly Living[]> {
  born(process: number): void
  paused(process: number, forMs: number): void
}

/** The oracles of several gateways over one record. */
export function createFleetOracles(
  watched: Omit<Watched, 'record'> & { readonly record: SimFleetRecord },
  engines: readonly Span[],
): FleetOracles {
  const { world, settings, record } = watched
  const common = createCommon({ ...watched, isFleet: true })
  // The state of the accounts is born, and grants nothing for a while.
  const calm = createCalm(world, settings, [...engines, { from: 0, to: bornMs }])
  const fleet = watchFleet(watched, common.record, calm, record)
  const accounts = watchFleetAccounts(watched, engines)
  const order = watchOrder(watched, common.record, calm, true)
  const lateness = watchLateness(watched, common.record, calm, fleetLateMsMax)
  const overtaking = watchOvertaking(watched, common.record, calm, fleetLateMsMax)
  return {
    born(process) {
      common.windows.born(process)
      accounts.born(process)
    },
    paused(process, forMs) {
      calm.disturb(forMs)
      accounts.paused(process, forMs)
    },
    died(process) {
      common.told.died(process)
      calm.died()
      fleet.died(process)
      accounts.died(process)
      common.windows.died(process)
    },
    isQuiet: common.isQuiet,
    async calm(living) {
      common.checkEnds()
      if (living.length === 0) world.violate('3 start', 'no process has started')
      for (const { tenant, recipient } of await record.erasures())
        world.violate('14 erasure', `${recipient} of ${tenant} is erased in part`)
    },
    end() {
      common.end()
      order.check(common.told.told)
      lateness.check(common.told.told)
      overtaking.check(common.told.told)
    },
    accepted: () => common.told.told.size,
    lookedAt: () => lateness.looked(),
  }
}

/** @param engines the losses of a server of limits, and how late a call may be beside one */
export function createOracles(
  watched: Watched,
  engines?: { readonly spans: readonly Span[]; readonly lateMs: number },
): Oracles<Living | undefined> {
  const { world, client } = watched
  watchAccounts(watched)
  const { record, told, unsettled, ...common } = createCommon(watched)
  const calm = createCalm(world, watched.settings, engines?.spans)
  const order = watchOrder(watched, record, calm, engines !== undefined)
  const lateness = watchLateness(watched, record, calm, engines?.lateMs)
  const overtaking = watchOvertaking(watched, record, calm, engines?.lateMs)
  const { rows, jobs, others } = record

  function checkCounts({ ledger }: Gateway): void {
    const counts = ledger.counts()
    for (const status of statuses) {
      const onRecord = [...rows.values()].filter((row) => row.status === status).length
      if (counts[status] !== onRecord)
        world.violate('3 counts', `${counts[status]} are ${status} by the ledger, ${onRecord} on record`)
    }
    if (unsettled().length > 0 || client.waiting().length > 0) return
    for (const tenant of tenants) {
      const { queue, waiting, bytes } = ledger.occupancy(tenant)
      if (queue !== 0 || waiting !== 0 || bytes !== 0)
        world.violate(
          '7 room',
          `nothing of ${tenant} waits, and ${JSON.stringify({ queue, waiting, bytes })} is taken`,
        )
    }
    const held = [...ledger.held().values()].reduce((sum, count) => sum + count, 0)
    if (held > 0) world.violate('12 memory', `${held} are held in memory, and nothing waits`)
  }

  /** Nothing is kept for what is final: no entry of a map that is not bounded otherwise, and no timer. */
  async function checkMemory({ timers }: SimProcess): Promise<void> {
    if (unsettled().length > 0 || client.waiting().length > 0) return
    const isFinal = (id: string): boolean => rows.has(id) || jobs.has(id) || others.has(id)
    for (const { name, id, count } of await keptForGood(isFinal, bounded))
      world.violate('12 memory', `${count} of ${name} keep what is final: ${id}`)
    if (timers > timersMax) world.violate('12 memory', `${timers} timers are armed, and nothing waits`)
  }

  return {
    died(process) {
      told.died(process)
      calm.died()
    },
    isQuiet: common.isQuiet,
    async calm(open) {
      common.checkEnds()
      if (open === undefined) world.violate('3 start', 'no process has started')
      else {
        checkCounts(open.gateway)
        await checkMemory(open.process)
      }
    },
    end() {
      common.end()
      order.check(told.told)
      lateness.check(told.told)
      overtaking.check(told.told)
    },
    accepted: () => told.told.size,
    lookedAt: () => lateness.looked(),
  }
}
