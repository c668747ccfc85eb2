/**
 * Composes admission: the limits, the gate that decides, and the scheduler. The gate schedules notifications; the
 * scheduler and the throttle queue are given the gate, which they call when a notification is due, when they start.
 */

import { createMemoryThrottle } from '../adapters/state/throttle/memory-throttle.ts'
import { createDecisionWindow } from '../admission/decision-window.ts'
import { createOrphans } from '../admission/digests/orphans.ts'
import { createErasure } from '../admission/erasure.ts'
import { createNewcomerPause } from '../admission/freed-slots.ts'
import { createGate } from '../admission/gate.ts'
import { createHoldOrder } from '../admission/hold-order.ts'
import { createHoldWalk } from '../admission/hold-walk.ts'
import { createPolicyCommits } from '../admission/policy-commits.ts'
import { createHoldReleaser } from '../admission/release-holds.ts'
import { createSuspects } from '../admission/suspects.ts'
import { createTenantThrottle } from '../admission/tenant-throttle/tenant-throttle.ts'
import { tenantOf } from '../config/config.ts'
import { channelsOf, selfAddressed } from '../config/pools.ts'
import { unlessStateAway } from '../errors.ts'
import { createJobs } from '../http/jobs.ts'
import type { Templates } from '../ports.ts'
import { createDivertingQueue } from '../queue/diverting.ts'
import { createEmbeddedQueue } from '../queue/embedded.ts'
import { createWithholdingQueue } from '../queue/withholding.ts'
import { createOwnSweep } from '../scheduler/own-sweep.ts'
import { createScheduler } from '../scheduler/scheduler.ts'
import { createUnserved } from '../scheduler/unserved.ts'
import { type Broker, createBrokerQueue } from './outgoing.ts'
import { createRecipientLimits } from './recipient-limits.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'
import { composeMissingTemplates } from './templates.ts'

export type Admission = ReturnType<typeof createAdmission>

export function createAdmission(
  context: RuntimeContext,
  record: Storage,
  templates: Templates,
  broker?: Broker,
) {
  const { config, policy: livePolicy, parts, clock, random, members, notifier, log, errorsOf } = context
  const { store, ledger, recipients, contents, limits } = record
  const onError = unlessStateAway(errorsOf('admission'))
  const policy = livePolicy.part
  const { marginMs } = config.limits

  const recipientLimits = createRecipientLimits(context, record, onError)
  const { freedSlots, forbiddenHours, state, heldSubjects, limiter } = recipientLimits

  // The limits of tenants and modules, and the release of everything reserved in any limit.
  const ratesOf = (tenant: string) => {
    const { rate, modules } = tenantOf(config.tenants, tenant)
    return { tenant: rate.windows, module: modules.windows }
  }
  const ownThrottle =
    limits?.throttle({ ratesOf, marginMs }) ??
    createMemoryThrottle({ store, clock, marginMs, ratesOf, onError })
  const throttleState = parts.wrapThrottle?.(ownThrottle) ?? ownThrottle
  const throttle = createTenantThrottle({ state: throttleState, clock, policy })
  const holdReleaser = createHoldReleaser({
    limiter,
    state,
    store,
    members,
    recipients,
    policy,
    throttle,
    clock,
    onError,
  })
  const { releaseHolds } = holdReleaser
  const pauseNewcomers = createNewcomerPause({ policy, recipients, state })

  // Due notifications go to the queue.
  const embeddedQueue = createEmbeddedQueue({
    clock,
    weightOf: (tenant) => tenantOf(config.tenants, tenant).weight,
  })
  const wholeQueue = parts.wrapQueue?.(embeddedQueue) ?? embeddedQueue
  const missingTemplates = composeMissingTemplates(context, record, {
    templates,
    queue: wholeQueue,
    recover: (notification) => scheduler.recover(notification),
  })
  const ownQueue =
    missingTemplates === undefined
      ? wholeQueue
      : createDivertingQueue(wholeQueue, missingTemplates.isMissing, missingTemplates.giveUp)
  const outgoing = broker && createBrokerQueue(ownQueue, broker, context, record)
  const { keeper } = limits ?? {}
  const keepsLimits = (): boolean => keeper?.keeper() === 'this process'
  const released = outgoing ?? ownQueue
  const withholding =
    keeper &&
    createWithholdingQueue(
      released,
      ({ priority, category }) =>
        keepsLimits() && priority !== 'critical' && policy.onStateLost(category) !== 'share',
    )
  const queue = withholding ?? released
  const unserved = createUnserved({
    store,
    ledger,
    served: new Set(channelsOf(config.pools)),
    members,
    clock,
    releaseHolds,
    pauseNewcomers,
    onDeadLetters: (channel, count) => log.warn({ event: 'channel.unserved', channel, count }),
    onError,
  })
  const countSuspects = createSuspects({ state, policy, recipients })
  const scheduler = createScheduler({
    store,
    ledger,
    queue,
    clock,
    releaseHolds,
    pauseNewcomers,
    countSuspects,
    members,
    digestNames: () => policy.digests.map(({ name }) => name),
    unserved,
    mayClaim: () => keeper?.keeper() !== 'another process',
    missingTemplates,
    onError(what, error) {
      onError(what, error)
      ownSweep.soon()
    },
  })
  members.onDeath(scheduler.takeOver)
  keeper?.listen({
    onKeeper() {
      withholding?.restore()
      // The others free what they hold: a process that was alone before would look for it a minute later.
      scheduler.noteFreed()
    },
    onHandedOver(ids) {
      for (const id of ids) {
        const live = ledger.live(id)
        if (live !== undefined && live.status !== 'sending') ledger.release(live.notification)
      }
    },
  })
  const ownSweep = createOwnSweep({ store, ledger, scheduler, clock, countSuspects, onError })

  // Admission and scheduling of accepted notifications.
  const commit = createPolicyCommits({ ledger, policy, limiter, recipients, onError })
  const gate = createGate({
    store,
    ledger: { ...ledger, commit },
    state: { ...state, ...holdReleaser.fingerprints },
    limiter: holdReleaser.limiter,
    recipients,
    policy,
    forbiddenHours,
    scheduler,
    throttle,
    contents,
    releaseHolds,
    pauseNewcomers,
    window: limits && createDecisionWindow(clock),
    serves: unserved.serves,
    keepsLimits,
    selfAddressed: selfAddressed(config.pools),
    notifier,
    clock,
    random,
    onError,
  })

  freedSlots.listen(gate.movingUp)

  const holdWalk = createHoldWalk({
    store,
    policy,
    recipients,
    forbiddenHours,
    review: gate.review,
    async moveUp(subjects) {
      await state.pause(subjects)
      await gate.movingUp.freed(subjects)
    },
    heldSubjects,
    rebookHeld: createHoldOrder({
      store,
      ledger,
      state,
      limiter,
      movingUp: gate.movingUp,
      policy,
      recipients,
      forbiddenHours,
      review: gate.review,
      onError,
    }),
    clock,
    onError,
  })

  const orphans = createOrphans({ store, gate, members, clock, onError })

  // Batches that are accepted in the background.
  const jobs = createJobs({ gate, store, ledger, contents, members, clock, random, onError })
  members.onDeath((gone, unheard = []) =>
    holdReleaser.noteGone(gone, async (ended) => {
      await jobs.cancelRest(ended)
      // Nobody may have outlived one that was never heard. A start that knew of a kill walks already.
      gate.walkAgain(unheard.length > 0 && !store.unsettled ? 'kill' : 'death')
    }),
  )

  const erasure = createErasure({
    store,
    recipients,
    contents,
    cancel: gate.cancel,
    digests: gate.digests,
    rereadJobs: jobs.reread,
    notifier,
    members,
    clock,
    onError,
  })

  return {
    erasure,
    holdWalk,
    state,
    forbiddenHours,
    limiter,
    throttle,
    holdReleaser,
    queue,
    outgoing,
    scheduler,
    ownSweep,
    unserved,
    missingTemplates,
    gate,
    orphans,
    jobs,
  }
}
