/**
 * The applications of a run. They post, cancel, change preferences and erase, by the seed; a request that was not answered
 * or failed is repeated with the same key where it had one. Their log is what the oracles hold against the record.
 */
import type { Draft, Notification, Recipient } from '../../src/model.ts'
import type { Caller } from '../../src/stages.ts'
import type { Entrance, Response } from './entrance.ts'
import type { AmbushOrder } from './fleet-settings.ts'
import type { SimProcess } from './process.ts'
import {
  actors,
  categories,
  type HoldPlan,
  modules,
  recipients,
  type Settings,
  second,
  tenants,
} from './settings.ts'
import type { World } from './world.ts'

type Kind =
  | 'post'
  | 'batch'
  | 'job'
  | 'cancel'
  | 'cancelJob'
  | 'preferences'
  | 'erase'
  | 'redrive'
  | 'preview'
  | 'hold'
  | 'endHold'

/** One request, each repetition one of its own. */
export interface Exchange {
  readonly operation: number
  readonly kind: Kind
  readonly caller: Caller
  readonly key?: string
  readonly drafts: readonly Draft[]
  /** The notification, job or recipient that it is about. */
  readonly of?: string
  readonly change?: Partial<Recipient>
  readonly plan?: HoldPlan
  /** The redrive is repeated for as long as it leaves letters whose tenant has no room. */
  readonly isForAll?: boolean
  readonly process: number
  readonly sentAt: number
  answeredAt?: number
  /** Absent: it was never answered. */
  response?: Response
}

/** A process that takes requests. */
export interface Open {
  readonly process: SimProcess
  readonly entrance: Entrance
  /** Requests under way, which a graceful stop waits for. */
  readonly underWay: Set<Promise<unknown>>
}

export interface Client {
  readonly exchanges: readonly Exchange[]
  readonly observers: Set<(exchange: Exchange) => void>
  /** Requests that a living process has not answered. */
  waiting(): readonly Exchange[]
  start(): void
  /** Cancels a notification that a process is about to send, opts its recipient out, or holds its tenant, at another process. */
  ambush(
    process: SimProcess,
    of: Pick<Notification, 'tenant' | 'module' | 'id' | 'to'>,
    order: AmbushOrder,
  ): void
  /** Posts one notification to a process, once. */
  probe(
    name: string,
    caller: Caller,
    to: { readonly recipient: string; readonly sendAt?: number },
    process: Open,
    operation?: number,
  ): Exchange
  /** Redrives all dead letters of all tenants, again where an answer tells that some had no room. */
  redriveAll(): void
  /** Puts a hold in force, and ends it early where it is planned so. */
  hold(name: string, plan: HoldPlan): void
}

const triesMax = 4
/** Opts out of everything. */
const everything: Partial<Recipient> = { optOuts: [{ channel: 'email' }, { channel: 'sms' }] }
/** Until a redrive that found no room is repeated, ms. */
const fullMs = 5 * second

/** @param open picks a process that takes requests, if possible another one than `not` */
export function createClient(
  world: World,
  settings: Settings,
  open: (not?: SimProcess) => Open | undefined,
): Client {
  const { traffic } = settings
  const exchanges: Exchange[] = []
  const waiting = new Set<Exchange>()
  const observers = new Set<(exchange: Exchange) => void>()
  const ids: { readonly caller: Caller; readonly id: string }[] = []
  const jobs: { readonly caller: Caller; readonly id: string }[] = []

  function draftOf(key: string, recipient: string): Draft {
    const chance = (name: string, share: number): boolean => world.draw(`${key} ${name}`) < share
    const now = world.elapsed() + settings.start
    const category = traffic?.category ?? world.pick(`${key} category`, categories)
    const actor = world.pick(`${key} actor`, actors)
    const isNews = category === 'activity' && chance('news', 0.5)
    const isRepeated = chance('repeated', 0.15)
    const text = isRepeated ? `again ${category} ${actor}` : key
    const priority = chance('critical', 0.05)
      ? 'critical'
      : world.pick(`${key} priority`, ['high', 'normal', 'normal', 'low'] as const)
    return {
      to: { id: recipient, email: `${recipient}@example.com`, phone: '+390612345678' },
      channel: chance('sms', 0.2) ? 'sms' : 'email',
      category,
      priority,
      actor,
      data: { author: actor },
      ...(isNews
        ? { template: 'news', data: { author: actor, text } }
        : { content: { subject: text, text } }),
      ...(chance('sendAt', 0.15) ? { sendAt: now + world.between(`${key} send`, 1, 15) * second } : {}),
      ...(chance('expiresAt', 0.15)
        ? { expiresAt: now + world.between(`${key} expires`, 2, 30) * second }
        : {}),
    }
  }

  function changeOf(key: string): Partial<Recipient> {
    const draw = world.draw(`${key} change`)
    if (draw < 0.3) return { optOuts: [{ category: world.pick(`${key} out`, categories) }] }
    if (draw < 0.4) return { optOuts: [{ channel: 'email' }] }
    if (draw < 0.65) return { optOuts: [] }
    // Noon is half a minute after the start: these hours end or begin then.
    if (draw < 0.8) return { timeZone: 'UTC', quietHours: { default: { from: '11:00', to: '12:00' } } }
    if (draw < 0.9) return { timeZone: 'UTC', quietHours: { default: { from: '12:00', to: '12:01' } } }
    return { quietHours: {} }
  }

  const kinds: readonly (readonly [Kind, number])[] = [
    ['post', 0.7],
    ['batch', 0.06],
    ['job', 0.03],
    ['cancel', 0.07],
    ['cancelJob', 0.01],
    ['preferences', 0.07],
    ['erase', 0.01],
    ['redrive', 0.03],
    ['preview', 0.02],
  ]

  const shares = traffic === undefined ? kinds : (Object.entries(traffic.shares) as typeof kinds)

  function kindOf(key: string): Kind {
    let draw = world.draw(`${key} kind`)
    for (const [kind, share] of shares) {
      if (draw < share) return kind
      draw -= share
    }
    return 'post'
  }

  function exchangeOf(operation: number): Omit<Exchange, 'process' | 'sentAt'> | undefined {
    const key = `operation ${operation}`
    const kind = kindOf(key)
    const tenant = world.pick(`${key} tenant`, traffic?.tenants ?? ['t1', 't1', 't2'])
    const caller = { tenant, module: world.pick(`${key} module`, modules) }
    const all = traffic?.recipients ?? recipients
    const recipient = world.pick(`${key} recipient`, all)
    const idempotency = world.draw(`${key} key`) < 0.6 ? { key: `key-${operation}` } : {}
    const drafts = (count: number): readonly Draft[] =>
      Array.from({ length: count }, (_, index) =>
        draftOf(`${key}.${index}`, world.pick(`${key} to ${index}`, all)),
      )
    switch (kind) {
      case 'post':
        return { operation, kind, caller, drafts: [draftOf(key, recipient)], ...idempotency }
      case 'preview':
        return { operation, kind, caller, drafts: [draftOf(key, recipient)] }
      case 'batch':
        return { operation, kind, caller, drafts: drafts(world.between(`${key} size`, 2, 6)), ...idempotency }
      case 'job':
        return {
          operation,
          kind,
          caller,
          drafts: drafts(world.between(`${key} size`, 3, 12)),
          ...idempotency,
        }
      case 'cancel': {
        const most = Math.min(ids.length, traffic?.recent ?? ids.length)
        const some = ids.at(-1 - Math.floor(world.draw(`${key} id`) * most))
        return some && { operation, kind, caller: some.caller, of: some.id, drafts: [] }
      }
      case 'cancelJob': {
        const some = jobs[Math.floor(world.draw(`${key} id`) * jobs.length)]
        return some && { operation, kind, caller: some.caller, of: some.id, drafts: [] }
      }
      case 'preferences':
        return {
          operation,
          kind,
          caller,
          of: recipient,
          change: traffic?.isFlip === true ? everything : changeOf(key),
          drafts: [],
        }
      case 'erase':
        return { operation, kind, caller, of: recipient, drafts: [] }
      case 'redrive':
        return { operation, kind, caller, drafts: [] }
      default:
        return undefined
    }
  }

  function ask({ kind, caller, key, drafts, of = '', change = {}, plan }: Exchange, entrance: Entrance) {
    switch (kind) {
      case 'post':
      case 'batch':
        return entrance.post(caller, drafts, key)
      case 'preview':
        return entrance.preview(caller, drafts[0]!)
      case 'job': {
        const { to: _, actor: _actor, data: _data, ...message } = drafts[0]!
        const { author = '' } = drafts[0]!.data ?? {}
        const people = drafts.map(({ to, data }) => ({ ...to, ...(data && { data: { ...data, author } }) }))
        const work = { message: { ...message, actor: String(author) }, recipients: people }
        return entrance.openJob(caller, work, key)
      }
      case 'cancel':
        return entrance.cancel(caller.tenant, of)
      case 'cancelJob':
        return entrance.cancelJob(caller.tenant, of)
      case 'preferences':
        return entrance.patch(caller.tenant, of, change)
      case 'erase':
        return entrance.erase(caller.tenant, of)
      case 'redrive':
        return entrance.redrive(caller.tenant)
      case 'hold':
        return entrance.hold(of, plan!)
      case 'endHold':
        return entrance.endHold(of)
    }
  }

  function note(exchange: Exchange): void {
    const { response, caller } = exchange
    for (const { id } of response?.accepted ?? []) ids.push({ caller, id })
    if (response?.job !== undefined) jobs.push({ caller, id: response.job })
    for (const observer of observers) observer(exchange)
  }

  function send(template: Omit<Exchange, 'process' | 'sentAt'>, tries: number, now = open()): void {
    const again = (): void => {
      // A post with a key may be repeated, and so may a redrive: it takes those that are dead still.
      if ((template.key === undefined && template.kind !== 'redrive') || tries >= triesMax) return
      const waitMs = world.between(`again ${template.operation} ${tries}`, 500, 3_000)
      world.at(world.now() + waitMs, () => send(template, tries + 1))
    }
    if (now === undefined) {
      again()
      return
    }
    const { process, entrance, underWay } = now
    const exchange: Exchange = { ...template, process: process.number, sentAt: world.now() }
    exchanges.push(exchange)
    waiting.add(exchange)
    const { operation, kind, of, key } = exchange
    world.trace({ kind: 'request', operation, what: kind, of, key, process: process.number })
    const forget = process.onDeath(() => {
      waiting.delete(exchange)
      note(exchange)
      again()
    })
    const work = new Promise<Response>((resolve) => {
      // A process that is paused reads it later.
      process.run(() => {
        ask(exchange, entrance).then(resolve, (error: unknown) => {
          world.violate('program', `${kind} threw ${error instanceof Error ? error.stack : String(error)}`)
          resolve({ status: 500 })
        })
      })
    })
    underWay.add(work)
    void work.then((response) => {
      underWay.delete(work)
      if (!process.isAlive) return
      forget()
      waiting.delete(exchange)
      exchange.answeredAt = world.now()
      exchange.response = response
      world.trace({ kind: 'response', operation, ...response })
      note(exchange)
      if (response.status >= 500 || response.status === 409) again()
      else if (template.isForAll === true && (response.leftFull ?? 0) > 0)
        world.at(world.now() + fullMs, () => send(template, 1))
    })
  }

  return {
    exchanges,
    observers,
    waiting: () => [...waiting],
    start() {
      // Half of the traffic comes in bursts, so that limits are met.
      const { operations, trafficMs } = settings
      for (let operation = 0; operation < operations; operation += 1) {
        const key = `operation ${operation}`
        const isBurst = world.draw(`${key} burst`) < 0.5
        const atMs = isBurst
          ? world.between(`${key} which`, 0, 5) * 10 * second + world.between(`${key} in`, 0, 400)
          : world.between(`${key} at`, 0, trafficMs)
        world.at(settings.start + atMs, () => {
          const template = exchangeOf(operation)
          if (template === undefined) return
          const first = open()
          send(template, 1, first)
          if (traffic?.isTwice !== true || template.kind !== 'preferences') return
          const change = traffic.isFlip === true ? { optOuts: [] } : changeOf(`operation ${operation} twice`)
          const laterMs = world.between(`operation ${operation} later`, 0, 3)
          world.at(world.now() + laterMs, () => send({ ...template, change }, 1, open(first?.process)))
        })
      }
    },
    ambush(process, { tenant, module, id, to }, order) {
      const caller = { tenant, module }
      const other = open(process)
      if (other === undefined || other.process === process) return
      if (order === 'cancel') send({ operation: -1, kind: 'cancel', caller, of: id, drafts: [] }, 1, other)
      else if (order === 'hold') {
        const plan = { at: world.elapsed(), forMs: 3 * second, selection: { tenant } }
        send({ operation: -1, kind: 'hold', caller, of: `ambush-${id}`, plan, drafts: [] }, 1, other)
      } else {
        send(
          { operation: -1, kind: 'preferences', caller, of: to.id, change: everything, drafts: [] },
          1,
          other,
        )
      }
    },
    probe(name, caller, { recipient, sendAt }, process, operation = -1) {
      const draft: Draft = {
        to: { id: recipient, email: `${recipient}@example.com` },
        channel: 'email',
        category: 'product',
        priority: 'normal',
        actor: name,
        content: { subject: name, text: name },
        ...(sendAt === undefined ? {} : { sendAt }),
      }
      send({ operation, kind: 'post', caller, drafts: [draft] }, triesMax, process)
      return exchanges.at(-1)!
    },
    redriveAll() {
      for (const tenant of tenants) {
        const caller = { tenant, module: modules[0] }
        send({ operation: -1, kind: 'redrive', caller, drafts: [], isForAll: true }, 1)
      }
    },
    hold(name, plan) {
      const hold = {
        operation: -1,
        caller: { tenant: tenants[0], module: modules[0] },
        of: name,
        plan,
        drafts: [],
      }
      send({ ...hold, kind: 'hold' }, 1)
      const { endAfterMs } = plan
      if (endAfterMs !== undefined)
        world.at(world.now() + endAfterMs, () => send({ ...hold, kind: 'endHold' }, 1))
    },
  }
}
