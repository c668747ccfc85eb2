/**
 * Leaves to other processes what is to be rendered with a template that this process lacks: during a rolling deployment it
 * claims what another one has accepted, or takes it over. Such a notification is free on record, and the claims of this
 * process pass over everything of that template. It is looked for at a claim, so that it leaves in time at the other one, and
 * again when it leaves the queue. Where no process that is alive has had the template for a while it is sent here, and fails
 * with that reason: the one that has it may be about to start again, or may not have told yet. Decision record 0048.
 */
import { SluiceError } from '../errors.ts'
import type { Channel, Notification } from '../model.ts'
import type { CarriedTemplates } from '../ports/fleet.ts'
import type { Clock, Queue, Store } from '../ports.ts'
import type { Contents, Ledger } from '../stages.ts'

export interface MissingTemplatesOptions {
  readonly store: Pick<Store, 'releaseDue'> & Required<Pick<Store, 'tellTemplates' | 'templatesOfOthers'>>
  readonly ledger: Pick<Ledger, 'isCurrent' | 'release'>
  /** The queue from which they were taken. */
  readonly queue: Pick<Queue, 'push'>
  readonly contents: Pick<Contents, 'of'>
  /** The templates of this process now; undefined where it can render every one. */
  readonly carried: () => CarriedTemplates | undefined
  /** Channels for which there is a pool: it leaves nothing of another one, and nobody leaves that to it. */
  readonly served: ReadonlySet<Channel>
  /** Recovers a notification that could not be written. */
  readonly recover: (notification: Notification) => Promise<void>
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly onError: (what: string, error: unknown) => void
}

export interface MissingTemplates {
  /** Returns the templates over which claims pass, as `<template>/<channel>`. */
  left(): readonly string[]
  /** Gives claimed notifications back whose template another process may have; returns the others. */
  ownOf(claimed: readonly Notification[]): Promise<readonly Notification[]>
  /** Tests if a notification is not to be sent before `giveUp` has decided about it. */
  isMissing(notification: Notification): boolean
  /** Gives notifications that were taken out of the queue back for another process, or returns them to the queue. */
  giveUp(pulled: readonly Notification[]): void
  /** Tells the others which templates this process has: at the start, and when they were replaced. */
  tell(): void
  stop(): Promise<void>
}

/** A notification waits for so long for a process that has its template, ms: a start again and a rollout are over by then. */
export const graceMs = 10 * 60_000
/** A template is forgotten so long after another process had it last, ms. */
const forgottenMs = 60 * 60_000
/** The record is asked this often for those that have the templates that are left to them, ms. */
const lookMs = 5_000
/** Pause after the store has failed, ms. */
const retryMs = 1_000
/** Templates that are known to be lacked; one more is learned again when it is met. */
const knownMax = 1_000
const none: readonly string[] = []
const channelOf = (key: string): Channel => key.slice(key.lastIndexOf('/') + 1) as Channel

export function createMissingTemplates(options: MissingTemplatesOptions): MissingTemplates {
  const { store, ledger, queue, contents, carried, served, recover, clock, onError } = options
  /** By template and channel, when another process had it last, or it was met here first: epoch ms. */
  const lacked = new Map<string, number>()
  /** Notifications that are sent here although this process lacks the template: they fail, or have a content of their own. */
  const sent = new WeakSet<Notification>()
  const working = new Set<Promise<void>>()
  let stopped = false
  let disarm: (() => void) | undefined
  let telling = Promise.resolve()
  let stopTelling = (): void => {}

  const keyOf = ({ template, channel }: Notification): string => `${template}/${channel}`
  const isWaiting = (key: string): boolean => clock.now() - (lacked.get(key) ?? 0) < graceMs

  function lacks({ template, channel, content }: Notification): boolean {
    if (template === undefined || content !== undefined || !served.has(channel)) return false
    return carried()?.has(template, channel) === false
  }

  /** Asks the record which of these templates others have, and notes when they had them. */
  async function look(keys: readonly string[]): Promise<void> {
    const had = new Set(await store.templatesOfOthers(keys))
    const now = clock.now()
    for (const key of keys) if (had.has(key) || !lacked.has(key)) lacked.set(key, now)
    while (lacked.size > knownMax) lacked.delete(lacked.keys().next().value!)
    lookSoon()
  }

  function lookSoon(): void {
    if (stopped || lacked.size === 0) return
    disarm ??= clock.at(clock.now() + lookMs, () => {
      disarm = undefined
      for (const [key, since] of lacked) if (clock.now() - since >= forgottenMs) lacked.delete(key)
      if (lacked.size > 0) track('look who has a template', look([...lacked.keys()]).finally(lookSoon))
    })
  }

  /** Returns those that are left to others. */
  async function leftOf(lacking: readonly Notification[]): Promise<readonly Notification[]> {
    await look([...new Set(lacking.map(keyOf))])
    return lacking.filter((each) => isWaiting(keyOf(each)))
  }

  /** Tests if its template only selects rules, since a content that is kept apart is sent. */
  async function hasContent(notification: Notification): Promise<boolean> {
    if (notification.shared === undefined) return false
    try {
      return (await contents.of(notification)).content !== undefined
    } catch (error) {
      // It fails when it is sent.
      if (error instanceof SluiceError && (error.code === 'NOT_FOUND' || error.row !== undefined)) return true
      throw error
    }
  }

  /** Finds what is left to others. */
  async function leftIn(all: readonly Notification[]): Promise<ReadonlySet<Notification>> {
    const rendered = []
    for (const each of all) if (lacks(each) && !(await hasContent(each))) rendered.push(each)
    return new Set(rendered.length === 0 ? [] : await leftOf(rendered))
  }

  async function decide(pulled: readonly Notification[]): Promise<void> {
    let open = pulled
    try {
      const left = await leftIn(pulled)
      const current = pulled.filter(ledger.isCurrent)
      const own = current.filter((each) => !left.has(each))
      for (const each of own) sent.add(each)
      if (own.length > 0) await queue.push(own)
      // One that is in the queue again may be on its way to its provider.
      open = current.filter((each) => left.has(each))
      for (const each of open) ledger.release(each)
      if (open.length > 0) await store.releaseDue(open)
    } catch (error) {
      for (const each of open) if (open !== pulled || ledger.isCurrent(each)) recoverSoon(each)
      throw error
    }
  }

  function recoverSoon(notification: Notification): void {
    ledger.release(notification)
    clock.at(clock.now() + retryMs, () => {
      if (!stopped) void recover(notification)
    })
  }

  async function tellNow(): Promise<void> {
    const own = carried()
    if (own === undefined || stopped) return
    try {
      await store.tellTemplates(own.keys.filter((key) => served.has(channelOf(key))))
    } catch (error) {
      onError('tell which templates there are', error)
      if (!stopped) stopTelling = clock.at(clock.now() + retryMs, tell)
    }
  }

  function tell(): void {
    stopTelling()
    // One after the other, so that the newest are told last.
    telling = telling.then(tellNow)
    track('tell which templates there are', telling)
  }

  function track(what: string, work: Promise<void>): void {
    const tracked = work
      .catch((error: unknown) => onError(what, error))
      .finally(() => working.delete(tracked))
    working.add(tracked)
  }

  return {
    left() {
      if (lacked.size === 0) return none
      const own = carried()
      for (const key of lacked.keys()) if (own?.keys.includes(key) !== false) lacked.delete(key)
      return [...lacked.keys()].filter(isWaiting)
    },
    async ownOf(claimed) {
      if (!claimed.some(lacks)) return claimed
      try {
        const left = await leftIn(claimed)
        if (left.size > 0) await store.releaseDue([...left])
        return claimed.filter((each) => !left.has(each))
      } catch (error) {
        // They are decided when they leave the queue.
        onError('leave what this gateway cannot render to others', error)
        return claimed
      }
    },
    isMissing: (notification) => lacks(notification) && !sent.has(notification),
    giveUp: (pulled) => track('leave what this gateway cannot render to others', decide(pulled)),
    tell,
    async stop() {
      stopped = true
      disarm?.()
      stopTelling()
      await Promise.all(working)
    },
  }
}
