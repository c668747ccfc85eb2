/**
 * Several gateways of the simulator without a seed: a test posts, lets time pass, and says at which call of a port a
 * gateway dies. Nothing is held up, refused or lost but what the test asks for, and no gateway is started again.
 */
import assert from 'node:assert/strict'
import { createRandom } from '../../src/adapters/random.ts'
import { createGateway, type Gateway } from '../../src/gateway.ts'
import type { Draft, Notification } from '../../src/model.ts'
import type { Faults } from './faults.ts'
import { configured, onRejection, wordless } from './fleet.ts'
import { createSimBus, openFleetProcess } from './fleet-process.ts'
import { type Machine, SimProcess } from './process.ts'
import { quietSettings } from './quiet-settings.ts'
import { createScriptServer } from './script-servers.ts'
import { type Settings, second, settingsOf } from './settings.ts'
import { createSimFleetRecord } from './sim-fleet-record.ts'
import { type Call, createSimService } from './sim-provider.ts'
import { openServer, type SimServer } from './sim-server.ts'
import { installTimers, runIn } from './sim-timers.ts'
import { createWorld } from './world.ts'

/** A call of a port: of the server of the limits the operation of a script, of all others the method. */
interface PortCall {
  readonly process: number
  readonly port: string
  readonly method: string
}

/** `before`: the call is not made; `answered`: it was performed, and its answer is not heard. `refused` only of a record. */
export type Blow = 'before' | 'answered' | 'refused'

interface MortalOptions extends Partial<Pick<Settings, 'limits' | 'rates'>> {
  readonly count: number
  /** Says what becomes of a call, in the order in which they are made. */
  readonly strike: (call: PortCall) => Blow | undefined
}

export interface MortalGateways {
  /** Milliseconds since the start. */
  elapsed(): number
  /** Lets time pass until so many ms since the start. */
  runUntil(ms: number): Promise<void>
  /** Posts one draft at a gateway, from 1 on; what it leaves out is an email to `ada`. */
  post(at: number, draft?: Partial<Draft>): Promise<Notification>
  /** Sets work in a gateway going, which may die of it. */
  begin(at: number, work: (gateway: Gateway) => Promise<unknown>): void
  isAlive(at: number): boolean
  /** Reads the record, in a gateway that is alive. */
  notification(id: string): Promise<Notification>
  /** The calls of the provider, oldest first. */
  readonly calls: readonly Call[]
  /** Errors of the gateways that nobody handled. */
  readonly violations: readonly unknown[]
  close(): Promise<void>
}

const caller = { tenant: 't1', module: 'm1' }
/** A draft is answered within that time, ms. */
const answerMsMax = 5 * second

export async function openMortalGateways(options: MortalOptions): Promise<MortalGateways> {
  const { count, strike, limits = [], rates = [] } = options
  const { changedLimits: _, ...base } = settingsOf(1)
  const settings: Settings = {
    ...base,
    ...quietSettings(0),
    limits,
    rates,
    accounts: [{ id: 'account-0', windows: [] }],
  }
  const world = createWorld(1, settings.start, false)
  const machine: Machine = { wallAheadMs: 0 }
  const record = createSimFleetRecord(world)
  const faults: Faults = {
    struck: new Set(),
    isDisturbed: () => false,
    strikesAt: (moment, { kill }) => moment === kill,
    fateOf(name) {
      const [process, port, method] = name.split('.') as [string, string, string]
      // A question to the limits is struck by its operation, below.
      const blow = port === 'redis' ? undefined : strike({ process: Number(process), port, method })
      const travels = { requestMs: 1, answerMs: 1 }
      if (blow === 'refused') return { ...travels, failure: blow }
      return blow === undefined ? travels : { ...travels, kill: blow }
    },
  }
  const service = createSimService(world, settings, faults)
  const server = openServer(world, createScriptServer())
  const bus = createSimBus(faults)
  const open: { readonly own: SimProcess; readonly gateway: Gateway }[] = []

  /** The server of the limits, at each of whose questions the test may strike. */
  const struck: SimServer = {
    ...server,
    connect(own, ...more) {
      const state = server.connect(own, ...more)
      const end = (why: string): Promise<never> => {
        own.end('kill', why)
        return new Promise(() => {})
      }
      return {
        ...state,
        async ask(script, key, args, withinMs) {
          const method = args[0]!.replace('!', '')
          const blow = strike({ process: own.number, port: 'redis', method })
          if (blow === 'before') return end(`before ${method}`)
          const reply = await state.ask(script, key, args, withinMs)
          return blow === 'answered' ? end(`at the answer of ${method}`) : reply
        },
      }
    },
  }

  async function start(own: SimProcess): Promise<void> {
    let draws = 0
    const chance = (): number => {
      draws += 1
      return world.draw(`random ${own.number} ${draws}`)
    }
    const gateway = await createGateway(configured(settings, own.number), {
      clock: own.clock,
      random: createRandom(chance),
      providers: [service.adapter(own)],
      templates: wordless,
      openFleet: (context) =>
        openFleetProcess(
          { process: own, faults, record, server: struck, bus, lockedMs: () => 0, onBegin() {} },
          context,
        ),
    })
    open.push({ own, gateway })
    await gateway.startStages()
  }

  /** Runs work in a gateway, and lets time pass until it is done. */
  async function within<T>(own: SimProcess, work: () => Promise<T>): Promise<T> {
    let ended: PromiseSettledResult<T> | undefined
    own.run(() => void Promise.allSettled([work()]).then(([end]) => (ended = end)))
    for (const endsAt = world.elapsed() + answerMsMax; ended === undefined; ) {
      assert.ok(world.elapsed() < endsAt, 'the gateway does not answer')
      await world.run(world.elapsed() + 1)
    }
    if (ended.status === 'rejected') throw ended.reason
    return ended.value
  }

  const at = (number: number) => open.find(({ own }) => own.number === number)!
  let posted = 0
  const removeTimers = installTimers()
  const offRejection = onRejection(world)
  for (let number = 1; number <= count; number += 1) {
    const own = new SimProcess(number, world, machine)
    await within(own, () => runIn(own, () => start(own)))
  }

  return {
    elapsed: world.elapsed,
    runUntil: (ms) => world.run(ms),
    async post(number, draft = {}) {
      posted += 1
      const text = `Message ${posted}`
      const complete: Draft = {
        to: { id: 'ada', email: 'ada@example.com' },
        channel: 'email',
        category: 'product',
        priority: 'normal',
        content: { subject: text, text },
        ...draft,
      }
      const { own, gateway } = at(number)
      const [result] = await within(own, () => gateway.gate.admit({ caller, drafts: [complete] }))
      return result!.notification
    },
    begin(number, work) {
      const { own, gateway } = at(number)
      own.run(() => void work(gateway).catch((error) => world.violate('test', String(error))))
    },
    isAlive: (number) => at(number).own.isAlive,
    async notification(id) {
      const { own, gateway } = open.find(({ own: each }) => each.isAlive)!
      const found = await within(own, () => gateway.store.notification(caller.tenant, id))
      assert.ok(found !== undefined, `notification ${id} is on record`)
      return found
    },
    calls: service.calls,
    violations: world.violations,
    async close() {
      for (const { own } of open) own.end('kill', 'the test is over')
      removeTimers()
      offRejection()
      await server.close()
    },
  }
}
