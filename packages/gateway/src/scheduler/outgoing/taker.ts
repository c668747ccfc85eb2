/**
 * Takes messages of all tenants in turn, as many as this process has room for, and asks the record for their
 * notifications. Messages are kept apart by tenant and channel: a channel whose accounts are slow keeps its own back, and
 * messages of the others behind it are taken all the same. Messages that wait here are not acknowledged.
 */
import type { Notification } from '../../model.ts'
import type { LeftToBroker, OutgoingDelivery } from '../../ports/outgoing.ts'
import type { Clock } from '../../ports.ts'
import type { Ledger } from '../../stages.ts'
import { isNews } from '../is-news.ts'
import type { Publisher } from './publisher.ts'

export interface TakerOptions {
  readonly left: Pick<LeftToBroker, 'take'>
  readonly ledger: Pick<Ledger, 'live' | 'watch' | 'subscribe'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly publisher: Pick<Publisher, 'takeBack'>
  /** The name of this process. */
  readonly member: string
  /** Keeps taken notifications in memory until they have left. */
  readonly keep: (taken: readonly Notification[]) => void
  /** Sends notifications that this process holds already. */
  readonly sendHere: (notifications: readonly Notification[]) => void
  /** Messages of a tenant that the broker gives to this process before they are acknowledged. */
  readonly prefetchOf: (tenant: string) => number
  readonly onError: (what: string, error: unknown) => void
}

interface ChannelMessages {
  readonly tenant: string
  readonly waiting: OutgoingDelivery[]
  /** Taken notifications that have not left. */
  taken: number
}

/** Taken notifications of one tenant and channel that have not left; more where its messages would be stuck behind them. */
const channelMax = 1_000
/** Taken notifications that have not left, of all channels. */
const takenMax = 20_000
/** Notifications that are asked for with one statement. */
const batchMax = 500
/** Delay before the record is asked again after an error, ms. */
const retryMs = 1_000

export class Taker {
  readonly #options: TakerOptions
  readonly #channels = new Map<string, ChannelMessages>()
  readonly #waitingOf = new Map<string, number>()
  /** Taken notifications that have not left, by id. */
  readonly #taken = new Map<string, ChannelMessages>()
  #turn = 0
  #isTaking = false
  #isRunning = false
  #run: Promise<void> = Promise.resolve()
  readonly counts = { taken: 0, superfluous: 0 }

  constructor(options: TakerOptions) {
    this.#options = options
    options.ledger.subscribe(({ before, notification: { id } }) => {
      if (before !== undefined) this.#gone(id)
    })
  }

  start(): void {
    this.#isRunning = true
  }

  /** True if this process took the notification from the broker: it leaves from here. */
  has = (id: string): boolean => this.#taken.has(id)

  waiting = (tenant: string): number => this.#waitingOf.get(tenant) ?? 0

  add(delivery: OutgoingDelivery): void {
    const { tenant } = delivery.message
    this.#messagesOf(delivery.message).waiting.push(delivery)
    this.#waitingOf.set(tenant, this.waiting(tenant) + 1)
    this.#pump()
  }

  #messagesOf({ tenant, channel }: Pick<Notification, 'tenant' | 'channel'>): ChannelMessages {
    const key = `${channel} ${tenant}`
    let messages = this.#channels.get(key)
    if (messages === undefined) {
      messages = { tenant, waiting: [], taken: 0 }
      this.#channels.set(key, messages)
    }
    return messages
  }

  /** Forgets the messages that wait here: the broker gives them out again. */
  clear(): void {
    for (const messages of this.#channels.values()) messages.waiting.length = 0
    this.#waitingOf.clear()
  }

  /** Forgets taken notifications that are no longer in memory, and channels without any. */
  sweep(): void {
    for (const id of this.#taken.keys()) if (this.#options.ledger.live(id) === undefined) this.#gone(id)
    for (const [key, { waiting, taken }] of this.#channels)
      if (waiting.length === 0 && taken === 0) this.#channels.delete(key)
    this.#pump()
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    await this.#run
  }

  #gone(id: string): void {
    const messages = this.#taken.get(id)
    if (messages === undefined) return
    this.#taken.delete(id)
    messages.taken -= 1
    this.#pump()
  }

  #pump(): void {
    if (this.#isTaking || !this.#isRunning) return
    const batch = this.#next()
    if (batch.length === 0) return
    this.#isTaking = true
    this.#run = this.#take(batch).finally(() => {
      this.#isTaking = false
      this.#pump()
    })
  }

  /** Takes one message of each channel in turn, while there are messages and room. */
  #next(): readonly OutgoingDelivery[] {
    const channels = [...this.#channels.values()]
    const room = Math.min(batchMax, takenMax - this.#taken.size)
    const batch: OutgoingDelivery[] = []
    const rounds = new Map<ChannelMessages, number>()
    for (
      let idle = 0;
      channels.length > 0 && idle < channels.length && batch.length < room;
      this.#turn += 1
    ) {
      const messages = channels[this.#turn % channels.length]!
      const chosen = rounds.get(messages) ?? 0
      const delivery = this.#hasRoom(messages, chosen) ? messages.waiting.shift() : undefined
      if (delivery === undefined) idle += 1
      else {
        idle = 0
        rounds.set(messages, chosen + 1)
        this.#waitingOf.set(messages.tenant, this.waiting(messages.tenant) - 1)
        batch.push(delivery)
      }
    }
    return batch
  }

  #hasRoom({ tenant, taken }: ChannelMessages, chosen: number): boolean {
    // When the broker gives no more of a tenant, its other channels wait behind this one.
    const isStuck = this.waiting(tenant) >= this.#options.prefetchOf(tenant)
    return taken + chosen < (isStuck ? takenMax / 2 : channelMax)
  }

  async #take(batch: readonly OutgoingDelivery[]): Promise<void> {
    const { left, ledger, publisher, member, keep, sendHere, onError, clock } = this.#options
    const again: OutgoingDelivery[] = []
    let waitMs = 0
    const own: Notification[] = []
    const asked: (OutgoingDelivery & { readonly endWatch: () => boolean })[] = []
    for (const delivery of batch) {
      const { message, ack } = delivery
      const published = publisher.takeBack(message)
      if (published === 'leaving') again.push(delivery)
      else if (published !== undefined) {
        own.push(published)
        this.#note(published)
        ack()
      } else if (ledger.live(message.id) !== undefined && message.from === member) {
        this.counts.superfluous += 1
        ack()
        // Another process may hold on record what is in memory here: without its message it would be sent by neither.
      } else asked.push({ ...delivery, endWatch: ledger.watch(message.id) })
    }
    if (own.length > 0) sendHere(own)
    if (asked.length > 0) {
      try {
        const found = await left.take(asked.map(({ message }) => message))
        const moved = new Set(asked.filter(({ endWatch }) => endWatch()).map(({ message }) => message.id))
        const fresh = found.filter((each) => !moved.has(each.id) && isNews(each, ledger))
        this.counts.superfluous += asked.length - fresh.length
        for (const each of fresh) this.#note(each)
        keep(fresh)
        for (const { ack } of asked) ack()
      } catch (error) {
        onError('ask the record for what a message names', error)
        for (const { endWatch } of asked) endWatch()
        again.push(...asked)
        waitMs = retryMs
      }
    }
    if (again.length === 0) return
    await new Promise<void>((resolve) => {
      clock.at(clock.now() + waitMs, resolve)
    })
    for (const delivery of again) this.add(delivery)
  }

  #note(notification: Notification): void {
    const { id } = notification
    const messages = this.#messagesOf(notification)
    this.counts.taken += 1
    if (!this.#taken.has(id)) messages.taken += 1
    this.#taken.set(id, messages)
  }
}
