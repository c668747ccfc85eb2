/** Carries out the strikes of a drill: each waits for a right to send or for a call, and meets the process that has it. */
import type { Message, RightRequest } from '../../src/ports.ts'
import type { Client, Open } from './client.ts'
import type { Faults } from './faults.ts'
import type { SimProcess } from './process.ts'
import { modules } from './settings.ts'
import type { SimService } from './sim-provider.ts'
import type { SimServer } from './sim-server.ts'
import type { DrillPost, Strike } from './strike.ts'
import type { World } from './world.ts'

export interface StrikeOptions {
  readonly world: World
  readonly strikes: readonly Strike[]
  /** No strike begins later than this, ms since the start. */
  readonly untilMs: number
  readonly without: ReadonlySet<string>
  readonly faults: Pick<Faults, 'struck'>
  readonly server: SimServer
  readonly service: Pick<SimService, 'observers'>
  readonly client: Pick<Client, 'probe'>
  readonly serving: () => readonly Open[]
  readonly pause: (process: SimProcess, forMs: number) => void
}

type Of = Pick<Message, 'tenant' | 'to'>

export interface Strikes {
  /** A process asks for rights to send, and has them after so long. */
  onBegin(process: SimProcess, requests: readonly RightRequest[], tookMs: number): void
  /** The time for which a call of a process is held up, ms. */
  lockedMs(process: SimProcess, call: string): number
}

export function createStrikes(options: StrikeOptions): Strikes {
  const { world, untilMs, without, faults, server, service, client, serving, pause } = options
  const all = options.strikes
    .map((strike, index) => ({ ...strike, name: `strike-${index}` }))
    .filter(({ name }) => !without.has(name))
  const waiting = all.filter(({ awaits }) => awaits !== 'time')
  /** The end of each lock, by the process and the call. */
  const locks = new Map<string, number>()
  let posted = 0

  function take(awaits: Strike['awaits']): (typeof waiting)[0] | undefined {
    const next = waiting[0]
    if (next === undefined || next.awaits !== awaits) return undefined
    if (world.elapsed() < next.at || world.elapsed() > untilMs) return undefined
    return waiting.shift()
  }

  const after = (ms: number, work: () => void): void => void world.at(world.now() + ms, work)
  const find = (met: number, to: DrillPost['to']): Open | undefined =>
    serving().find(({ process }) => (process.number === met) === (to === 'same'))

  function post(
    name: string,
    { tenant, to, count = 0, waitsMs }: DrillPost,
    of: Of | undefined,
    met: number,
  ): void {
    const open = find(met, to)
    if (open === undefined) return
    const caller = { tenant: tenant ?? of!.tenant, module: modules[0] }
    const sendAt = waitsMs === undefined ? {} : { sendAt: world.now() + waitsMs }
    for (let index = 0; index < Math.max(1, count); index += 1) {
      posted += 1
      const recipient = count === 0 ? of!.to.id : `${name}-${posted}`
      client.probe(`${name} ${posted}`, caller, { recipient, ...sendAt }, open, -1 - posted)
    }
  }

  function begin({ name, ...strike }: (typeof waiting)[0], met: number, of?: Of, tookMs = 0): void {
    const { flushesAfterMs = [], failOverAfterMs, deposedMs, pauseMs } = strike
    const process = find(met, 'same')?.process
    faults.struck.add(name)
    world.trace({ kind: 'strike', name, process: met, of: of?.to.id })
    for (const ms of flushesAfterMs) after(ms, () => server.flush())
    if (failOverAfterMs !== undefined)
      server.failOver(tookMs + failOverAfterMs, deposedMs ?? 1, deposedMs === undefined ? undefined : process)
    if (pauseMs !== undefined && process !== undefined)
      after(Math.max(0, tookMs - 1), () => pause(process, pauseMs))
    for (const { call, of: whose, forMs } of strike.locks ?? [])
      locks.set(`${find(met, whose)?.process.number} ${call}`, world.now() + forMs)
    for (const each of strike.posts) after(tookMs + each.afterMs, () => post(name, each, of, met))
  }

  for (const strike of all.filter(({ awaits }) => awaits === 'time'))
    world.at(world.start + strike.at, () => {
      const met = serving()[Math.floor(world.draw(`${strike.name} meets`) * serving().length)]
      if (met !== undefined) begin(strike, met.process.number)
    })

  service.observers.add(({ process, message }, what) => {
    const strike = what === 'written' ? take('written') : undefined
    if (strike !== undefined) begin(strike, process, message)
  })

  return {
    onBegin(process, requests, tookMs) {
      const first = requests[0]?.notification
      const strike = first && take('begin')
      if (first !== undefined && strike !== undefined) begin(strike, process.number, first, tookMs)
    },
    lockedMs: ({ number }, call) => Math.max(0, (locks.get(`${number} ${call}`) ?? 0) - world.now()),
  }
}
