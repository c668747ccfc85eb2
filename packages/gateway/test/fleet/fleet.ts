/**
 * Runs whole gateways over a record and a provider that outlive them, by one seed: one process after the other, or several
 * side by side that share the limits. The oracles watch what crosses their borders; they share no code with them.
 */

// The composition loads these when it needs them, which takes real time and no virtual one: here they are loaded before.
import '../../src/adapters/state/redis/memory-registrations.ts'
import '../../src/adapters/state/redis/one-process-record.ts'
import '../../src/adapters/state/redis/redis-limits.ts'
import '../../src/adapters/state/redis/redis-throttle.ts'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { createRandom } from '../../src/adapters/random.ts'
import type { Config } from '../../src/config/config.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway, type Gateway } from '../../src/gateway.ts'
import type { LimitState, Store, Templates } from '../../src/ports.ts'
import { createClient, type Open } from './client.ts'
import { createEntrance } from './entrance.ts'
import { createFaults, type PortTerms } from './faults.ts'
import { engineSpans, fleetSettingsOf } from './fleet-settings.ts'
import { endMemoryWatch, watchMemory } from './memory-watch.ts'
import { createOracles, fleetLateMsMax } from './oracles.ts'
import { type Machine, SimProcess } from './process.ts'
import type { ScriptServer } from './script-servers.ts'
import { configOf, downMsMax, policyOf, type Settings, second, settingsOf } from './settings.ts'
import { createSimService } from './sim-provider.ts'
import { createSimRecord } from './sim-record.ts'
import { openServer } from './sim-server.ts'
import { installTimers, runIn } from './sim-timers.ts'
import { wired } from './wires.ts'
import { createWorld, type Violation, type World } from './world.ts'

export interface RunResult {
  readonly seed: number
  readonly violations: readonly Violation[]
  readonly traceHash: string
  readonly lines: readonly string[]
  /** Names of the faults that struck. */
  readonly struck: readonly string[]
  readonly figures: {
    readonly processes: number
    readonly accepted: number
    readonly calls: number
    /** Calls whose earliest instant was searched. */
    readonly lookedAt: number
    readonly virtualMs: number
  }
}

export interface RunOptions {
  /** Names of faults that are left out. */
  readonly without?: ReadonlySet<string>
  readonly settings?: Settings
  /** The trace shows each call of a port. @defaultValue false */
  readonly isVerbose?: boolean
  /** The limits count in a server, which loses them as the seed says. @defaultValue in the memory of the process */
  readonly limitServer?: ScriptServer
}

/** Delay of a call to the thread of the embedded store, ms. */
const storeTerms: PortTerms = {
  usualMs: 2,
  requestMsMax: 5_000,
  answerMsMax: 5_000,
  mayBeRefused: true,
  mayBeLost: false,
}
/** The record may have a commit whose answer was lost, and its reads may be repeated. */
const storeExceptions: Readonly<Record<string, Partial<PortTerms>>> = Object.fromEntries(
  ['commit', 'isApplied', 'notification', 'recipient', 'answer', 'job', 'digestItems', 'dueDigests'].map(
    (method) => [method, { mayBeLost: true }],
  ),
)
/** Limiter state and queue are in the process itself in quiet times. */
const stateTerms: PortTerms = {
  usualMs: 0,
  requestMsMax: 3_000,
  answerMsMax: 3_000,
  mayBeRefused: false,
  mayBeLost: false,
}
/** An answer of the limits that travels for so long leaves time for a change, and is used by its caller all the same, ms. */
const interveneMs = { least: 20, most: 240 }
/** Questions that run beside the writes, in a thread of their own. */
const beside = new Set(['notification', 'list', 'deadLetters', 'jobWork', 'jobMembers', 'content'])
/** `start` restores from the store, whose calls have their own wire. */
const throttleDirect = ['start', 'stop']
const storeDirect = ['mayHave', 'claimedUntil', 'close']

export const wordless: Templates = { has: () => true, hasSubject: () => true, render: () => ({ text: '' }) }

/** How long a run goes on after the traffic until everything has come to its end, ms of virtual time. */
export const tailMsMax = 8_000 * second
/** A graceful stop ends after this, as `http.drainMs`. */
export const drainMs = 30 * second

export async function runFleet(seed: number, options: RunOptions = {}): Promise<RunResult> {
  const { without = new Set<string>(), limitServer } = options
  const fleet = limitServer && fleetSettingsOf(seed, 1)
  const settings = options.settings ?? fleet?.settings ?? settingsOf(seed)
  const world = createWorld(seed, settings.start, options.isVerbose === true)
  const machine: Machine = { wallAheadMs: 0 }
  const record = createSimRecord()
  // A step that is not on record is unknown to every later process (decision record 0017): no kill comes before that.
  const isStepUnseen = (): boolean => (record.timeLine?.aheadMs ?? 0) !== machine.wallAheadMs
  const faults = createFaults(world, settings, without, isStepUnseen)
  const service = createSimService(world, settings, faults)
  const server = limitServer && openServer(world, limitServer)
  const { refusedShare, commitRefusedShare: refusedBesides } = settings.faults
  const commitRefusedShare = Math.min(0.5, refusedShare + refusedBesides)
  /** Holds that begin while the next answer of the limits travels. */
  const beforeCall: (() => void)[] = []
  let processes = 0
  let open: (Open & { readonly gateway: Gateway }) | undefined
  let process: SimProcess | undefined
  const client = createClient(world, settings, () => open)
  const oracles = createOracles(
    { world, settings, client, service, record, machine },
    fleet && { spans: engineSpans(fleet), lateMs: fleetLateMsMax },
  )

  function boot(): void {
    processes += 1
    const own = new SimProcess(processes, world, machine)
    process = own
    watchMemory()
    world.trace({ kind: 'boot', process: own.number })
    own.onDeath((how) => {
      if (open?.process === own) open = undefined
      oracles.died(own.number, how)
      const most = how === 'stop' ? 1_000 : (settings.downMsMax ?? downMsMax)
      world.at(world.now() + world.between(`down ${own.number}`, 100, most), boot)
    })
    runIn(own, () => start(own)).catch((error: unknown) => {
      // A start that fails ends the process, and its supervisor starts another one.
      world.trace({ kind: 'start failed', error: String(error) })
      endWhenSeen(own, 'the start failed')
    })
  }

  /** Kills a process once the step of the clock is on record, within a minute: no later process could know of it. */
  function endWhenSeen(own: SimProcess, why: string, tries = 60): void {
    if (isStepUnseen() && tries > 0) world.at(world.now() + second, () => endWhenSeen(own, why, tries - 1))
    else own.end('kill', why)
  }

  async function start(own: SimProcess): Promise<void> {
    const { clock } = own
    let draws = 0
    const chance = (): number => {
      draws += 1
      return world.draw(`random ${own.number} ${draws}`)
    }
    const opened = await record.open(world.now() + machine.wallAheadMs)
    const wiredStore: Store = wired({
      name: 'store',
      process: own,
      faults,
      port: opened,
      terms: storeTerms,
      code: 'STORE_UNAVAILABLE',
      direct: storeDirect,
      exceptions: {
        ...storeExceptions,
        commit: { ...storeExceptions.commit, refusedShare: commitRefusedShare },
      },
      isInOrder: (method) => !beside.has(method),
    })
    const gateway = await createGateway(configured(settings, own.number), {
      clock,
      random: createRandom(chance),
      ...(server === undefined
        ? { store: wiredStore }
        : {
            store: plain(opened, wiredStore),
            openLimitServer: (registrations) => ({
              redis: server.connect(own, faults, registrations),
              health: { counts: () => [] as never, noteError() {} } as never,
            }),
          }),
      providers: [service.adapter(own)],
      templates: wordless,
      ...(settings.subjectsMax === undefined ? {} : { subjectsMax: settings.subjectsMax }),
      ...(settings.recoveryRows === undefined ? {} : { recoveryRows: settings.recoveryRows }),
      wrapState: (port) =>
        server === undefined && settings.subjectsMax === undefined ? stateBehindWire(port, own) : port,
      wrapThrottle: (port) =>
        server !== undefined
          ? port
          : wired({
              name: 'throttle',
              process: own,
              faults,
              port,
              terms: stateTerms,
              code: 'STATE_UNAVAILABLE',
              direct: throttleDirect,
              isInOrder: () => true,
            }),
      wrapRoom: (port) =>
        wired({
          name: 'room',
          process: own,
          faults,
          port,
          terms: stateTerms,
          code: 'STATE_UNAVAILABLE',
          direct: ['count', 'of'],
          isInOrder: () => true,
        }),
      // Whom a queue wakes would go on with the timers of nobody.
      wrapQueue: (port) =>
        server !== undefined
          ? port
          : wired({
              name: 'queue',
              process: own,
              faults,
              port,
              terms: stateTerms,
              code: 'STORE_UNAVAILABLE',
              direct: queueDirect,
            }),
    })
    if (!own.isAlive) return
    open = { process: own, entrance: createEntrance(gateway, clock), underWay: new Set(), gateway }
    await gateway.startStages()
    world.trace({ kind: 'started', process: own.number })
  }

  function stateBehindWire(port: LimitState, own: SimProcess): LimitState {
    return wired({
      name: 'state',
      process: own,
      faults,
      port,
      terms: {
        ...stateTerms,
        delayShare: settings.faults.stateDelayShare,
        mayBeRefused: true,
        refusedShare: settings.faults.stateRefusedShare,
      },
      code: 'STATE_UNAVAILABLE',
      direct: ['close'],
      exceptions: stateExceptions,
      onSent(method, { requestMs, answerMs, failure }) {
        const tookMs = requestMs + answerMs
        if (method !== 'fire' || failure !== undefined) return
        if (tookMs >= interveneMs.least && tookMs <= interveneMs.most) beforeCall.shift()?.()
      },
    })
  }

  async function stop(): Promise<void> {
    const own = open
    if (own === undefined) return
    open = undefined
    world.trace({ kind: 'stop', process: own.process.number })
    world.at(world.now() + drainMs, () => endWhenSeen(own.process, 'its stop took too long'))
    await Promise.allSettled([...own.underWay])
    await runIn(own.process, () => own.gateway.stop())
    own.process.end('stop', 'stopped')
  }

  /** Steps the wall clock while a process runs that sees it. */
  function step(byMs: number): void {
    if (open === undefined || record.timeLine === undefined) {
      world.at(world.now() + second, () => step(byMs))
      return
    }
    machine.wallAheadMs += byMs
    world.trace({ kind: 'step', byMs })
  }

  const { pauses, steps, stops, holds } = settings.faults
  const planned = (name: string, atMs: number, strike: () => void): void => {
    if (without.has(name)) return
    world.at(settings.start + atMs, () => {
      faults.struck.add(name)
      strike()
    })
  }
  for (const [index, { at, forMs }] of pauses.entries())
    planned(`pause-${index}`, at, () => process?.pause(forMs))
  for (const [index, { at, byMs }] of steps.entries()) planned(`step-${index}`, at, () => step(byMs))
  for (const [index, at] of stops.entries()) planned(`stop-${index}`, at, () => void stop())

  for (const [index, plan] of holds.entries())
    planned(`hold-${index}`, plan.at, () => {
      const hold = (): void => client.hold(`hold-${index}`, plan)
      if (plan.isBeforeCall === true && server === undefined) beforeCall.push(() => world.soon(hold))
      else hold()
    })

  for (const [index, { at }] of fleet?.engines.flushes.entries() ?? [])
    planned(`flush-${index}`, at, () => server!.flush())
  for (const [index, { at, downMs }] of fleet?.engines.restarts.entries() ?? [])
    planned(`restart-${index}`, at, () => server!.restart(downMs))
  for (const [index, { at, lostMs, deposedMs }] of fleet?.engines.failOvers.entries() ?? [])
    planned(`fail-over-${index}`, at, () => server!.failOver(lostMs, deposedMs))

  const removeTimers = server === undefined ? () => {} : installTimers()
  const offRejection = onRejection(world)
  try {
    boot()
    client.start()
    await world.run(settings.trafficMs)
    let ms = settings.trafficMs
    if (!settings.faults.isEndless) {
      for (; ms < settings.trafficMs + tailMsMax; ms += ms < 300 * second ? 5 * second : 60 * second) {
        await world.run(ms)
        if (ms === settings.trafficMs + 60 * second) client.redriveAll()
        if (ms > settings.trafficMs + 90 * second && oracles.isQuiet()) break
      }
      await oracles.calm(open)
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
    endMemoryWatch()
    removeTimers()
    offRejection()
    await server?.close()
  }
}

/** Copies the methods of a wire to an object: the composition replaces some of them. */
function plain(store: Store, wire: Store): Store {
  const names = new Set<string>()
  for (let of: object = store; of !== Object.prototype; of = Object.getPrototypeOf(of) as object)
    for (const name of Object.getOwnPropertyNames(of)) names.add(name)
  names.delete('constructor')
  return Object.fromEntries(Array.from(names, (name) => [name, Reflect.get(wire, name)])) as never as Store
}

/** Shows a rejection that nobody handles; the returned function ends it. */
export function onRejection(world: World): () => void {
  const listener = (error: unknown): void => {
    world.violate('program', `unhandled rejection: ${error instanceof Error ? error.stack : String(error)}`)
  }
  process.on('unhandledRejection', listener)
  return () => void process.off('unhandledRejection', listener)
}

/** A preview reserves nothing: when it is answered late, the client is told what was so. */
const stateExceptions = {
  preview: { answerMsMax: 0 },
  // These hold newcomers up within the process. A state across a network gives them a time after which they end.
  pause: { mayBeRefused: false },
  resume: { mayBeRefused: false },
  queueBehind: { mayBeRefused: false },
} as const
const queueDirect = ['giveBack', 'pull', 'subscribe', 'size', 'critical', 'oldest', 'takeOverdue', 'close']

/** Configurations of the run at hand, by their text: most processes of a run have the same. */
const configurations = new WeakMap<Settings, Map<string, Config>>()

export function configured(settings: Settings, process: number): Config {
  const policy = stringify(policyOf(settings, process))
  const known = configurations.get(settings) ?? new Map<string, Config>()
  configurations.set(settings, known)
  const rest = stringify(configOf(settings, process))
  const config = known.get(policy + rest) ?? read(rest, policy)
  known.set(policy + rest, config)
  return config
}

function read(sluice: string, policy: string): Config {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-fleet-'))
  try {
    const path = join(folder, 'sluice.yaml')
    writeFileSync(path, sluice)
    writeFileSync(join(folder, 'policy.yaml'), policy)
    const config = loadConfig({ path, env: {}, cwd: folder })
    // The pools of all other channels are the default ones of the sandbox.
    return {
      ...config,
      pools: config.pools.filter(({ channel }) => channel === 'email' || channel === 'sms'),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
