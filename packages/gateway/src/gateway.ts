/**
 * The composition: configuration → adapters → stages, in the order in which a notification meets them. Read it first:
 * everything that Sluice is made of stands here. Each part is put together in a file of composition/; only those know
 * both the engines and the stages.
 */
import type { Sandbox } from './adapters/providers/sandbox.ts'
import { createAdmission } from './composition/admission.ts'
import { createDispatch } from './composition/dispatch.ts'
import { createEntrance } from './composition/entrance.ts'
import { openRecord } from './composition/record.ts'
import { type GatewayParts, surroundingsOf } from './composition/surroundings.ts'
import { createLinks, loadTemplates } from './composition/texts.ts'
import type { Config } from './config/config.ts'
import { startRetention } from './delivery/retention.ts'
import type { Gate, Jobs, Ledger, PoolReport } from './doors.ts'
import type { Store } from './ports.ts'
import { createArrivals } from './schedule/arrival.ts'

export { type GatewayParts, virtualParts } from './composition/surroundings.ts'
export { loadTemplates } from './composition/texts.ts'

export interface Gateway {
  /** Opens the doors; resolves when requests are answered. */
  start(): Promise<{ readonly url: string }>
  /** The same without HTTP: for the simulator and for tests. */
  startStages(): Promise<void>
  /** Takes nothing new, lets what is in flight settle, and closes the store. */
  stop(): Promise<void>
  readonly gate: Gate
  /** Takes a person out of everything on record. */
  readonly erase: (tenant: string, recipient: string) => Promise<void>
  readonly jobs: Jobs
  readonly store: Store
  readonly ledger: Ledger
  readonly pools: () => readonly PoolReport[]
  readonly sandbox: Sandbox
}

export async function createGateway(config: Config, parts: GatewayParts = {}): Promise<Gateway> {
  const surroundings = surroundingsOf(config, parts)
  const { clock, onTrouble } = surroundings

  // Before the store is opened: what is wrong with them leaves nothing open.
  const templates = parts.templates ?? loadTemplates(config)
  const links = createLinks(config)
  const entrance = createEntrance(surroundings)
  const record = await openRecord(surroundings, entrance.timeCommit)
  const { store, ledger } = record
  // From here on time is measured: before, the line of the process before was not known.
  const bornAt = clock.now()
  const admission = createAdmission(surroundings, record)
  const { gate, jobs, platform, schedule, unserved, orphans, queue, state, erasure } = admission
  const dispatch = await createDispatch(surroundings, record, admission, { templates, links }).catch(
    async (error) => {
      await record.close()
      throw error
    },
  )
  const { sandbox, hub } = dispatch
  const pools = (): readonly PoolReport[] => dispatch.pools.map((pool) => pool.report(clock.now()))
  let stopRetention: (() => void) | undefined

  async function startStages(): Promise<void> {
    await dispatch.start(bornAt)
    stopRetention = startRetention({ ledger, clock, ...config.retention, onTrouble })
    hub.onArrival(createArrivals({ store, ledger, agenda: schedule, clock, onTrouble }))
    // Before anything of theirs is on its way again.
    await erasure.start()
    await platform.start()
    await schedule.start()
    await jobs.start()
    gate.movingUp.start()
    unserved.start()
    // It takes its time with a large record, and nobody waits for it.
    void orphans.start()
  }

  return {
    gate,
    erase: erasure.erase,
    jobs,
    store,
    ledger,
    sandbox,
    pools,
    startStages,
    async start() {
      const url = await entrance.open({ record, admission, dispatch, templates, links, pools })
      await startStages()
      return { url }
    },
    async stop() {
      await entrance.close()
      await jobs.stop()
      erasure.stop()
      stopRetention?.()
      await orphans.stop()
      await platform.stop()
      await schedule.stop()
      await dispatch.stop()
      await gate.movingUp.stop()
      await unserved.stop()
      await Promise.all([queue.close(), state.close()])
      await record.close()
    },
  }
}
