/**
 * The composition: configuration → adapters → stages, in the order in which a notification meets them. Read it
 * first: every part of Sluice stands here. Each part is composed in a file of composition/, and only those
 * files know both the engines and the stages.
 */

import { createAdmission } from './composition/admission.ts'
import { createDispatch } from './composition/dispatch.ts'
import { createFeedbackParts } from './composition/feedback.ts'
import { lookAtState, openFleet } from './composition/fleet.ts'
import { createGatewayServer } from './composition/http-server.ts'
import { composeIntakes } from './composition/intake.ts'
import { liveLinks, liveTemplates } from './composition/live.ts'
import { lookAtQueue, openBroker } from './composition/outgoing.ts'
import { createPolicyPreview, type PolicyPreview } from './composition/policy-preview.ts'
import { type GatewayParts, runtimeContextOf } from './composition/runtime-context.ts'
import { secretKeysOf } from './composition/secret-keys.ts'
import { openStorage, type Storage } from './composition/storage.ts'
import { createLinks, loadTemplates } from './composition/templates.ts'
import { composeReplays, type Replays } from './composition/traffic.ts'
import type { Config } from './config/config.ts'
import { restartFields } from './config/describe.ts'
import { SluiceError } from './errors.ts'
import type { Feedback } from './feedback/feedback.ts'
import type { Backlog } from './ledger/backlog.ts'
import { type Retention, startRetention } from './ledger/retention.ts'
import type { OperatorLog } from './log.ts'
import type { Policy } from './policy/policy.ts'
import type { Store } from './ports.ts'
import type { Sandbox } from './providers/sandbox/adapter.ts'
import { startOfflineRecheck } from './scheduler/offline-recheck.ts'
import { createReconnect } from './scheduler/reconnect.ts'
import type { Gate, Jobs, Ledger, OperatorHolds, PoolReport } from './stages.ts'

export { lookAtDeliveryLog, openDeliveryLog } from './composition/delivery-log.ts'
export { lookAtIntake } from './composition/intake.ts'
export { backUpStore, migrateStore, moveStore, restoreStore } from './composition/maintenance.ts'
export { type GatewayParts, virtualParts } from './composition/runtime-context.ts'
export { hashRecipient } from './composition/secret-keys.ts'
export { lookAtStore } from './composition/storage.ts'
export { loadTemplates } from './composition/templates.ts'
export { openTraffic, trafficOf } from './composition/traffic.ts'
export { lookAtQueue, lookAtState }

export interface Gateway {
  /** Starts the HTTP server; resolves when requests are answered. */
  start(): Promise<{ readonly url: string }>
  /** Starts without HTTP: for the simulator and for tests. */
  startStages(): Promise<void>
  /**
   * Puts the secrets, keys, templates and the policy of this configuration in force, as a whole. Throws INVALID_CONFIG
   * where one of them is not valid, or where anything else differs: then everything stays as it was.
   */
  reload(next: Config): Promise<void>
  /** Stops gracefully: accepts no new work, waits until sends in flight are settled, and closes the store. */
  stop(): Promise<void>
  readonly gate: Gate
  /** Erases a recipient from every record. */
  readonly erase: (tenant: string, recipient: string) => Promise<void>
  readonly jobs: Jobs
  readonly store: Store
  readonly ledger: Ledger
  /** Counts of what waits, by reason and second. */
  readonly backlog: Backlog
  readonly pools: () => readonly PoolReport[]
  readonly holds: OperatorHolds
  /** Slows and pauses categories whose recipients complain. */
  readonly complaints: Storage['complaints']
  /** Takes what is reported of sent notifications, and tells of each event once. */
  readonly feedback: Feedback
  readonly policyPreview: PolicyPreview
  readonly replays: Replays
  readonly sandbox: Sandbox
  readonly log: OperatorLog
}

export async function createGateway(config: Config, parts: GatewayParts = {}): Promise<Gateway> {
  const secretKeys = await secretKeysOf(config)
  const alone = runtimeContextOf(config, parts, secretKeys)
  const { policy, clock, log } = alone
  const onError = alone.errorsOf('gateway')

  // Before the store is opened: a mistake in them leaves nothing open.
  const texts = liveTemplates(parts.templates ?? loadTemplates(config))
  const signedLinks = liveLinks(createLinks(config, secretKeys))
  const templates = texts.part
  const links = signedLinks.part
  let inForce = config
  const server = createGatewayServer(alone)
  const fleet = await (parts.openFleet ?? openFleet)(alone)
  const shared = fleet && { fleet, members: fleet.members, notifier: fleet.state.notifier }
  const context = { ...alone, ...shared }
  const { members, notifier } = context
  const record = await openStorage(context, server.timeCommit)
  const { store, ledger } = record
  // Time is measured from here on: the time of the process before was not known earlier.
  const bornAt = clock.now()
  const broker = await openBroker(context, store).catch(async (error) => {
    await record.close()
    throw error
  })
  const admission = createAdmission(context, record, templates, broker)
  const {
    gate,
    holdWalk,
    jobs,
    throttle,
    scheduler,
    ownSweep,
    unserved,
    missingTemplates,
    orphans,
    queue,
    state,
    erasure,
    holdReleaser,
  } = admission
  const feedback = createFeedbackParts(context, record, admission, secretKeys)
  const { watched } = feedback
  feedback.feedback.onFeedback(({ type, ...event }) => {
    if (type === 'complaint') record.complaints.complained(event)
  })
  const dispatch = await createDispatch(context, record, admission, { templates, links, watched }).catch(
    async (error) => {
      await record.close()
      throw error
    },
  )
  const { sandbox, hub } = dispatch
  const pools = (): readonly PoolReport[] => dispatch.pools.map((pool) => pool.report(clock.now()))
  const policyPreview = createPolicyPreview(context, record, admission)
  const replays = composeReplays(context, record, fleet)
  const intakes = composeIntakes(context, { record, admission, dispatch, templates, pools })
  let retention: Retention | undefined
  let stopRecheck = (): void => {}
  let isServing = false
  const inFlight = () => ({
    inFlight: dispatch.pools.reduce((total, pool) => total + pool.inFlight, 0),
  })
  const onDone = (rows: number, tookMs: number): void => log.debug({ event: 'retention.done', rows, tookMs })

  async function startStages(): Promise<void> {
    missingTemplates?.tell()
    await dispatch.start(bornAt)
    feedback.start()
    record.deliveryLog?.start()
    retention = startRetention({
      ledger,
      intake: store.intake,
      members,
      clock,
      ...config.retention,
      onDone,
      onError,
    })
    const reconnect = createReconnect({ store, ledger, scheduler, clock, onError })
    const { look } = dispatch
    const { recipients: here, onConnect } = hub
    stopRecheck = startOfflineRecheck({ ledger, members, look, here, onConnect, reconnect, clock })
    // Before any notification of an erased recipient continues.
    await erasure.start()
    await record.complaints.start()
    await throttle.start(gate.promote)
    await scheduler.start(gate)
    admission.outgoing?.start(scheduler)
    ownSweep.start()
    await jobs.start()
    gate.startMovingUp()
    record.holds.listen(({ kind, hold, before = hold }) => {
      // At its end nothing waits for it any more, and a new hold of an account is met by what leaves.
      if (kind === 'ended' && hold.until <= clock.now()) return
      if (hold.account === undefined) void holdWalk.follow([before, hold])
      else if (kind === 'ended' || hold.until < before.until)
        void holdWalk.follow([
          { ...(hold.channel === undefined ? {} : { channel: hold.channel }), isOfAccount: true },
        ])
    })
    record.complaints.listen(({ before, now: { stage, tenant, category } }) => {
      // A line that begins stops nobody who has an instant already: it meets what leaves.
      if (stage !== 'slowed' || before === 'paused') void holdWalk.follow([{ tenant, category }])
    })
    unserved.start(scheduler.recover)
    // It takes long with many records, and nothing waits for it.
    void orphans.start()
    await intakes.start()
  }

  let reloading: Promise<unknown> = Promise.resolve()
  let isStopping = false

  /** One after the other: each compares with what is in force. */
  function reload(next: Config): Promise<void> {
    const reloaded = reloading.then(() => {
      if (isStopping) throw new SluiceError('INVALID_CONFIG', 'The gateway stops.')
      return putInForce(next)
    })
    reloading = reloaded.catch(() => {})
    return reloaded
  }

  async function putInForce(next: Config): Promise<void> {
    const kept = restartFields(inForce, next)
    if (kept.length > 0)
      throw new SluiceError(
        'INVALID_CONFIG',
        `${kept.join(', ')}: changed, which takes a restart; only secrets, keys, templates and the policy are read again`,
        { errors: kept.map((path) => ({ path, message: 'changed, which takes a restart' })) },
      )
    const nextTexts = loadTemplates(next)
    const nextLinks = createLinks(next, secretKeys)
    const applyWebhooks = feedback.prepare(next)
    const accounts = await dispatch.prepare(next)
    let keys: Awaited<ReturnType<typeof server.prepare>> | undefined
    try {
      keys = await server.prepare(next)
      const { version } = next.policy.compiled
      if (version !== policy.part.version) await members.announcePolicy(version)
    } catch (error) {
      await Promise.all([accounts.discard(), keys?.discard()])
      throw error
    }
    // Without an await in between: all of it is in force at once.
    texts.replace(nextTexts)
    signedLinks.replace(nextLinks)
    accounts.apply()
    applyWebhooks()
    keys.apply()
    replacePolicy(next.policy.compiled)
    inForce = next
    missingTemplates?.tell()
  }

  /**
   * Puts a policy in force. Each subject of the limits is filled again from the record when it is touched next, and
   * those who wait in it move up before a newcomer, as after a restart with another policy.
   */
  function replacePolicy(next: Policy): void {
    if (next.version === policy.part.version) return
    policy.replace(next)
    state.renew()
    dispatch.policyChanged()
    record.complaints.policyChanged()
    gate.walkAgain('policy')
  }

  return {
    reload,
    gate,
    erase: erasure.erase,
    jobs,
    store,
    ledger,
    backlog: record.backlog,
    sandbox,
    log,
    pools,
    holds: record.holds,
    complaints: record.complaints,
    feedback: feedback.feedback,
    policyPreview,
    replays,
    startStages,
    async start() {
      const url = await server.open({
        record,
        fleet,
        admission,
        dispatch,
        templates,
        links,
        feedback,
        pools,
        policyPreview,
        replays,
        intakes: intakes.reports,
        retention: () => retention,
      })
      await startStages()
      isServing = true
      log.info({
        event: 'gateway.started',
        address: url,
        store: config.store.path,
        policy: policy.part.version,
        pools: config.pools.map(({ channel, provider, accounts }) => ({
          channel,
          provider,
          accounts: accounts.length,
        })),
        waiting: waitingOf(ledger),
        recovered: store.unsettled,
      })
      return { url }
    },
    async stop() {
      const begunAt = clock.now()
      if (isServing) log.info({ event: 'gateway.draining', ...inFlight() })
      isStopping = true
      await reloading
      await server.close()
      stopRecheck()
      await intakes.stop()
      await replays.close()
      await jobs.stop()
      erasure.stop()
      retention?.stop()
      await orphans.stop()
      await gate.undecided.stop()
      gate.promotion.stop()
      await throttle.stop()
      await ownSweep.stop()
      await admission.outgoing?.stop()
      await scheduler.stop()
      await dispatch.stop()
      await feedback.stop()
      const isSettled = (
        await Promise.all([holdReleaser.stop(), holdWalk.stop(), gate.movingUp.stop()])
      ).every(Boolean)
      await Promise.all([unserved.stop(), missingTemplates?.stop()])
      await Promise.all([queue.close(), state.close(), members.close(), notifier.close()])
      await fleet?.state.close()
      const left = waitingOf(ledger)
      // A result that the store refused leaves its notification as it was: the next start counts it as perhaps sent.
      await record.close(isSettled && !ledger.isSending())
      if (isServing)
        log.info({ event: 'gateway.stopped', tookMs: clock.now() - begunAt, leftForNextStart: left })
    },
  }
}

/** Counts what waits on record. */
function waitingOf(ledger: Ledger): number {
  const { scheduled, digesting, queued, sending } = ledger.counts()
  return scheduled + digesting + queued + sending
}
