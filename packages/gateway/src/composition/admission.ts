/**
 * From a request to the queue: the limits, the gate that decides, the schedule of what waits. The gate books in the
 * schedule, and the schedule and the line call the gate when a turn has come; so the three are made together.
 */
import { createEmbeddedQueue } from '../adapters/queue/embedded.ts'
import { createMemoryState } from '../adapters/state/memory.ts'
import { createBook } from '../admission/book.ts'
import { createErasure } from '../admission/erasure.ts'
import { createFacts } from '../admission/facts.ts'
import { createGate } from '../admission/gate.ts'
import { createGivingBack } from '../admission/giving-back.ts'
import { createHours } from '../admission/hours.ts'
import { createOrphans } from '../admission/orphans.ts'
import { createPlatformLine } from '../admission/platform.ts'
import { tenantOf } from '../config/config.ts'
import { selfAddressed } from '../config/pools.ts'
import { createJobs } from '../intake/jobs.ts'
import type { Subject } from '../ports.ts'
import { createSchedule } from '../schedule/agenda.ts'
import { createUnserved } from '../schedule/unserved.ts'
import type { OnRecord } from './record.ts'
import type { Surroundings } from './surroundings.ts'

export type Admission = ReturnType<typeof createAdmission>

export function createAdmission({ config, clock, random, log, onTrouble }: Surroundings, record: OnRecord) {
  const { store, ledger, people, contents } = record
  const policy = config.policy.compiled
  const { marginMs } = config.limits

  // The limits of people: a cache of facts in the store.
  const factsOf = createFacts({
    store,
    policy,
    ledger,
    people,
    clock,
    isUnsettled: () => store.crashed && !gate.movingUp.isThrough(),
  })
  const onFreed = (subjects: readonly Subject[]): void => {
    gate.movingUp.freed(subjects).catch((error) => onTrouble('let those who wait move up', error))
  }
  const onOutdated = (subject: Subject): void => onFreed([subject])
  const state = createMemoryState({ clock, marginMs, factsOf, onOutdated })
  const hours = createHours(policy, () => clock.aheadMs?.() ?? 0)
  const book = createBook({ state, policy, hours, clock, onFreed })

  // The limits of tenants and modules, and the way back for what anybody held in any limit.
  const platform = createPlatformLine({
    store,
    clock,
    marginMs,
    policyVersion: policy.version,
    ratesOf: (tenant) => {
      const { rate, modules } = tenantOf(config.tenants, tenant)
      return { tenant: rate.windows, module: modules.windows }
    },
    callUp: (tenant, ids) => gate.callUp(tenant, ids),
    onTrouble,
  })
  const giveBack = createGivingBack({ book, state, people, policy, platform })

  // What is due goes to the queue.
  const queue = createEmbeddedQueue({ clock, weightOf: (tenant) => tenantOf(config.tenants, tenant).weight })
  const unserved = createUnserved({
    store,
    ledger,
    served: new Set(config.pools.map(({ channel }) => channel)),
    clock,
    giveBack,
    recover: (notification) => schedule.recover(notification),
    onBuried: (channel, count) =>
      log.warn(
        { channel, count },
        'no pool serves this channel: what waited for it are dead letters until one does',
      ),
    onTrouble,
  })
  const schedule = createSchedule({
    store,
    ledger,
    queue,
    clock,
    gate: () => gate,
    giveBack,
    unserved,
    onTrouble,
  })

  // What is accepted, and when it may leave.
  const gate = createGate({
    store,
    ledger,
    state,
    book,
    people,
    policy,
    hours,
    agenda: schedule,
    platform,
    contents,
    giveBack,
    serves: unserved.serves,
    selfAddressed: selfAddressed(config.pools),
    clock,
    random,
    onTrouble,
  })

  const orphans = createOrphans({ store, gate, clock, onTrouble })

  // Batches that are accepted in the background.
  const jobs = createJobs({ gate, store, ledger, contents, clock, random, onTrouble })

  const erasure = createErasure({
    store,
    people,
    contents,
    cancel: gate.cancel,
    rereadJobs: jobs.reread,
    clock,
    onTrouble,
  })

  return { erasure, state, hours, book, platform, giveBack, queue, schedule, unserved, gate, orphans, jobs }
}
