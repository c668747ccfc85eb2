/**
 * Runs several gateways at once over one record, one server of limits and one provider, by one seed. The record is a
 * model in memory; the scripts of the limits run in virtual time (sim-server.ts). Kills, pauses, losses
 * of either engine and of single answers meet any of them.
 */
import { createRandom } from '../../src/adapters/random.ts'
import { createGateway, type Gateway } from '../../src/gateway.ts'
import type { RightRequest } from '../../src/ports.ts'
import { createClient, type Open } from './client.ts'
import { createEntrance } from './entrance.ts'
import { createFaults } from './faults.ts'
import {
  configured,
  drainMs,
  onRejection,
  type RunOptions,
  type RunResult,
  tailMsMax,
  wordless,
} from './fleet.ts'
import { type Drill, drilled } from './fleet-drills.ts'
import { createSimBus, openFleetProcess } from './fleet-process.ts'
import { engineSpans, type FleetSettings, fleetSettingsOf } from './fleet-settings.ts'
import { endMemoryWatch } from './memory-watch.ts'
import { createFleetOracles } from './oracles.ts'
import { createProber } from './probes.ts'
import { type Machine, SimProcess } from './process.ts'
import { createScriptServer, type ScriptServer } from './script-servers.ts'
import { downMsMax, second } from './settings.ts'
import { createSimFleetRecord } from './sim-fleet-record.ts'
import { createSimService } from './sim-provider.ts'
import { openServer } from './sim-server.ts'
import { installTimers, runIn } from './sim-timers.ts'
import { createStrikes } from './strikes.ts'
import { createWorld } from './world.ts'

export interface FleetRunOptions extends Omit<RunOptions, 'settings'> {
  /** Runs the scripts of the limits. @defaultValue this process */
  readonly scripts?: ScriptServer
  readonly gateways: number
  readonly drill?: Drill | undefined
  readonly fleet?: FleetSettings
}

type Serving = Open & { readonly gateway: Gateway }

/** The processes start one after the other, ms. */
const startMsMax = 500

export async function runGateways(seed: number, options: FleetRunOptions): Promise<RunResult> {
  const { without = new Set<string>(), gateways, drill } = options
  const usual = fleetSettingsOf(seed, gateways)
  const { fleet = drill === undefined ? usual : drilled(drill, seed, usual) } = options
  const { settings, engines } = fleet
  const ambushes = fleet.ambushes.map((each, index) => ({ ...each, name: `ambush-${index}` }))
  const world = createWorld(seed, settings.start, options.isVerbose === true)
  const machine: Machine = { wallAheadMs: 0 }
  const record = createSimFleetRecord(world)
  const faults = createFaults(world, settings, without, () => false)
  const service = createSimService(world, settings, faults)
  const server = openServer(world, options.scripts ?? createScriptServer())
  const bus = createSimBus(faults)
  const serving = new Set<Serving>()
  const alive = new Set<SimProcess>()
  let processes = 0
  let picked = 0
  /** Picks one of the processes by the seed. */
  function pick<T>(of: Iterable<T>): T | undefined {
    const all = [...of]
    picked += 1
    return all.length === 0 ? undefined : world.pick(`pick ${picked}`, all)
  }
  const client = createClient(world, settings, (not) => {
    const others = [...serving].filter(({ process }) => process !== not)
    return pick(others.length > 0 ? others : serving)
  })
  const oracles = createFleetOracles(
    { world, settings, client, service, record, machine },
    engineSpans(fleet),
  )
  const prober = createProber(world, settings, client, () => [...serving])

  function boot(): void {
    processes += 1
    const own = new SimProcess(processes, world, machine)
    alive.add(own)
    world.trace({ kind: 'boot', process: own.number })
    oracles.born(own.number)
    own.onDeath((how) => {
      alive.delete(own)
      for (const each of serving) if (each.process === own) serving.delete(each)
      oracles.died(own.number, how)
      const downMs = world.between(`down ${own.number}`, 100, how === 'stop' ? 1_000 : downMsMax)
      world.at(world.now() + downMs, boot)
    })
    runIn(own, () => start(own)).catch((error: unknown) => {
      // A start that fails ends the process, and its supervisor starts another one.
      world.trace({ kind: 'start failed', error: String(error) })
      own.end('kill', 'the start failed')
    })
  }

  function pause(own: SimProcess | undefined, forMs: number): void {
    if (own === undefined) return
    oracles.paused(own.number, forMs)
    own.pause(forMs)
  }

  const strikes = createStrikes({
    world,
    strikes: fleet.strikes ?? [],
    untilMs: settings.trafficMs,
    without,
    faults,
    server,
    service,
    client,
    serving: () => [...serving],
    pause,
  })

  // A process that goes on the moment it is declared dead does not know it yet.
  if (fleet.wakesAtDeath === true)
    record.onDeclaredDead((number) => {
      const own = [...alive].find((each) => each.number === number)
      world.at(world.now() + world.between(`wake ${number}`, 0, 2), () => own?.wake())
    })

  /** Pauses a process about the instant at which it has a right to send, and lets a client forbid it elsewhere. */
  function ambush(own: SimProcess, requests: readonly RightRequest[], tookMs: number): void {
    const index = ambushes.findIndex(({ at }) => at <= world.elapsed())
    const first = requests[0]?.notification
    // Faults are over with the traffic.
    if (index < 0 || first === undefined || world.elapsed() > settings.trafficMs) return
    const [{ name, forMs, order, isBeforeAnswer }] = ambushes.splice(index, 1) as [(typeof ambushes)[0]]
    if (without.has(name)) return
    faults.struck.add(name)
    const now = world.now()
    world.at(now + tookMs - (isBeforeAnswer ? 1 : 0), () => pause(own, forMs))
    world.at(now + world.between(`${name} order`, 0, 10), () => client.ambush(own, first, order))
  }

  async function start(own: SimProcess): Promise<void> {
    const { clock } = own
    let draws = 0
    const chance = (): number => {
      draws += 1
      return world.draw(`random ${own.number} ${draws}`)
    }
    let once: Parameters<typeof createEntrance>[2]
    const gateway = await createGateway(configured(settings, own.number), {
      clock,
      random: createRandom(chance),
      providers: [service.adapter(own)],
      templates: wordless,
      async openFleet(context) {
        const opened = await openFleetProcess(
          {
            process: own,
            faults,
            record,
            server,
            bus,
            lockedMs: (call) => strikes.lockedMs(own, call),
            onBegin(requests, tookMs) {
              ambush(own, requests, tookMs)
              strikes.onBegin(own, requests, tookMs)
            },
          },
          context,
        )
        once = opened.state.once
        return opened
      },
      ...(settings.recoveryRows === undefined ? {} : { recoveryRows: settings.recoveryRows }),
    })
    if (!own.isAlive) return
    serving.add({
      process: own,
      entrance: createEntrance(gateway, clock, once),
      underWay: new Set(),
      gateway,
    })
    await gateway.startStages()
    world.trace({ kind: 'started', process: own.number })
  }

  async function stop(): Promise<void> {
    const own = pick(serving)
    if (own === undefined) return
    serving.delete(own)
    world.trace({ kind: 'stop', process: own.process.number })
    world.at(world.now() + drainMs, () => own.process.end('kill', 'its stop took too long'))
    await Promise.allSettled([...own.underWay])
    await runIn(own.process, () => own.gateway.stop())
    own.process.end('stop', 'stopped')
  }

  function plan<T extends { readonly at: number }>(
    name: string,
    list: readonly T[],
    strike: (of: T) => void,
  ): void {
    for (const [index, each] of list.entries()) {
      const own = `${name}-${index}`
      if (without.has(own)) continue
      world.at(settings.start + each.at, () => {
        faults.struck.add(own)
        strike(each)
      })
    }
  }
  const { pauses, stops, holds } = settings.faults
  plan('pause', pauses, ({ forMs }) => pause(pick(alive), forMs))
  plan(
    'stop',
    stops.map((at) => ({ at })),
    () => void stop(),
  )
  plan('hold', holds, (each) => client.hold(`hold-${holds.indexOf(each)}`, each))
  plan('flush', engines.flushes, () => server.flush())
  plan('restart', engines.restarts, ({ downMs }) => server.restart(downMs))
  plan('fail-over', engines.failOvers, ({ lostMs, deposedMs }) => server.failOver(lostMs, deposedMs))
  plan('crash', engines.crashes, ({ downMs }) => record.crash(downMs))

  endMemoryWatch()
  const removeTimers = installTimers()
  const offRejection = onRejection(world)
  try {
    for (let index = 0; index < gateways; index += 1)
      world.at(world.now() + world.between(`start ${index}`, 0, startMsMax), boot)
    client.start()
    await world.run(settings.trafficMs)
    if (!settings.faults.isEndless) {
      for (
        let ms = settings.trafficMs;
        ms < settings.trafficMs + tailMsMax;
        ms += ms < 300 * second ? 5 * second : 60 * second
      ) {
        await world.run(ms)
        if (ms === settings.trafficMs + 20 * second) client.redriveAll()
        if (ms > settings.trafficMs + 30 * second && oracles.isQuiet()) break
      }
      if (oracles.isQuiet()) await prober.run(oracles.isQuiet)
      await oracles.calm([...serving])
    }
    oracles.end()
    return {
      seed,
      violations: world.violations,
      traceHash: world.traceHash(),
      lines: world.lines(),
      struck: [...faults.struck],
      figures: {
        processes,
        accepted: oracles.accepted(),
        calls: service.calls.length,
        lookedAt: oracles.lookedAt(),
        virtualMs: world.elapsed(),
      },
    }
  } finally {
    removeTimers()
    offRejection()
    await server.close()
  }
}
