/**
 * Plans the change that closes a digest. Few items leave one by one, each under the limits; more leave as one
 * notification, which counts once against its channel and category and once for every author in it. Items of an author
 * at the limit stay behind and do not hold up the others; while a limit admits no item, the digest stays open and goes on
 * collecting. All of it is one change: after a crash each item is in exactly one place. Its size is bounded: a digest of
 * thousands keeps the rest, and closes again at once.
 */

import type { Digest, Move, Notification, SharedContent } from '../../model.ts'
import { advance } from '../../model.ts'
import type { DigestSpec, Policy } from '../../policy/policy.ts'
import type { Clock, DigestWrite, Random, Reservation, Store } from '../../ports.ts'
import type { Contents, RecipientLimiter } from '../../stages.ts'
import type { UndoList } from '../../undo.ts'
import { type Candidate, eventOf, hasBooked, reservedVerdict, undecidedVerdict } from '../candidate.ts'
import { type Evaluator, moveTo } from '../evaluate.ts'
import type { RecipientCache } from '../recipient-cache.ts'
import { storedContent } from '../stored-content.ts'
import { admissibleAuthors } from './admissible-authors.ts'
import { createDigestItems, type Gathered } from './digest-items.ts'
import { digestData, digestOf } from './digest-notification.ts'
import { createDigestPlaces, heldAsOf, heldNotification, isSameHold, nearMs } from './digest-places.ts'

export interface DigestPlannerOptions {
  readonly store: Pick<Store, 'digestItems' | 'notification' | 'openDigest' | 'isVersioned'>
  readonly limiter: RecipientLimiter
  readonly recipients: RecipientCache
  readonly contents: Pick<Contents, 'of'>
  readonly policy: Policy
  readonly evaluator: Pick<Evaluator, 'evaluate' | 'ineligibility'>
  readonly clock: Clock
  readonly random: Random
}

/** The extent of a closing: all items that may leave, a few of them, or each of them on its own, undecided. */
export type Extent = 'whole' | 'few' | 'apart'

/** The writes of a closing. */
export interface Plan {
  readonly contents?: readonly SharedContent[]
  readonly accept: readonly Notification[]
  readonly moves: readonly Move[]
  readonly digests: readonly DigestWrite[]
}

export interface DigestPlanner {
  /** Plans a closing. Reservations that it makes are entered in the undo list. */
  plan(digest: Digest, extent: Extent, undo: UndoList): Promise<Plan>
  /** Returns the digest as it stands on record; undefined where it is closed. */
  present(digest: Digest): Promise<Digest | undefined>
}

/** Items of one closing, a few ms of work each page; the other items leave in a further notification, under the limits. */
const itemsMax: Readonly<Record<Extent, number>> = { whole: 5_000, few: 10, apart: 100 }
/** Maximum of items that leave one by one in one change. */
const singleMax = 100
const whyBehind = 'its author is at the limit'

/** The input of a plan: a digest, its recipient, and the items that were read. */
interface Closing {
  readonly digest: Digest
  readonly recipient: Candidate['recipient']
  readonly now: number
  /** The instant that it has given up while it is planned. */
  readonly liftedAt?: number
  /** Its instant has come: only what has left stands in its way, and not those that wait behind it. */
  readonly inTurn: boolean
  /** The policy in force when it began. */
  readonly policyVersion: string
  /** Items that may be sent. */
  readonly items: readonly Notification[]
  readonly gathered: Gathered
  /** Moves of the items that expired or may not be sent. */
  readonly ended: readonly Move[]
  readonly undo: UndoList
}

/** The instant at which a digest may leave that its limits hold up. */
interface HeldUp {
  readonly until: number
  /** As what it holds that instant, if it does. */
  readonly heldAs?: NonNullable<Digest['heldAs']>
}

/** Items whose authors are at their limits, and the time when the first of these authors has a free slot. */
interface Behind extends HeldUp {
  readonly items: readonly Notification[]
  readonly author?: string
}

const putOff = ({ heldAs: _, ...digest }: Digest, closesAt: number, { heldAs }: HeldUp): Digest => ({
  ...digest,
  closesAt,
  ...(heldAs === undefined ? {} : { heldAs }),
})

const noneBehind: Behind = { items: [], until: Number.POSITIVE_INFINITY }

export function createDigestPlanner(options: DigestPlannerOptions): DigestPlanner {
  const { store, limiter, recipients, contents, policy, evaluator, clock, random } = options
  const places = createDigestPlaces({ limiter, clock })
  const digestItems = createDigestItems({ store, contents, clock })

  /**
   * Where another process has closed the digest meanwhile, the places are those of the notifications that it has written: of
   * the items, or of the one that has the id of the digest.
   */
  const isHeldElsewhere = store.isVersioned
    ? async (planned: Notification): Promise<boolean> =>
        hasBooked(await store.notification(planned.tenant, planned.id), planned)
    : undefined

  async function present(digest: Digest): Promise<Digest | undefined> {
    const open = await store.openDigest(digest)
    return open?.id === digest.id ? open : undefined
  }

  /** Reserves a slot for a digest that is held up, so that new notifications come after it. */
  async function hold(closing: Closing, as: Notification, until: number): Promise<HeldUp> {
    const { digest, recipient, now, liftedAt, inTurn, undo } = closing
    const held = { notification: heldNotification(digest, heldAsOf(as)), recipient }
    const place = { ...held, waitOnly: true, waited: true, horizonMs: policy.maxDelayMs }
    let [reservation] = await limiter.reserve([{ ...place, inTurn, notBefore: now }])
    // Its slot may stand closer to those behind it than the limits admit, as that of any other that left late.
    if (liftedAt !== undefined && liftedAt > now && reservation!.at > liftedAt)
      [reservation] = await limiter.reserve([{ ...place, inTurn: true, notBefore: liftedAt }])
    if (!reservation!.held) return { until }
    // Another process may have closed it meanwhile: nobody plans it again, who would give this up.
    undo.add(async () => {
      if ((await present(digest)) || (await isHeldElsewhere?.({ ...as, id: digest.id }))) return
      places.forget(digest.id)
      await limiter.takeBack([held])
    })
    places.remember(digest.id, { ...held, at: reservation!.at })
    // Its turn has come, and the next instant is promised to another, who would leave first each time.
    if (inTurn && reservation!.at - now > nearMs) await limiter.planAround(held)
    return { until: reservation!.at, heldAs: heldAsOf(as) }
  }

  async function holdBehind(closing: Closing, spec: DigestSpec, behind: Behind): Promise<Behind> {
    const { items, until, author } = behind
    if (items.length === 0 || author === undefined) return behind
    const as = { ...digestOf(closing.digest, spec, items, closing.now), actors: [author] }
    // The others have taken the turn.
    const { liftedAt: _, ...anew } = closing
    return { ...behind, ...(await hold({ ...anew, inTurn: false }, as, until)) }
  }

  async function closingOf(
    digest: Digest,
    max: number,
    undo: UndoList,
  ): Promise<Omit<Closing, 'inTurn' | 'liftedAt'>> {
    const now = clock.now()
    const policyVersion = policy.version
    let recipient = await recipients.find(digest.tenant, digest.recipient)
    const gathered = await digestItems.gather(digest, max)
    const isRefused = (item: Notification): boolean =>
      evaluator.ineligibility({ notification: item, recipient }) !== undefined
    if (gathered.items.some(isRefused)) {
      // Another process may have saved since what lets them go.
      recipients.forget(digest.tenant, digest.recipient)
      recipient = await recipients.find(digest.tenant, digest.recipient)
    }
    const ended: Move[] = []
    const refused: Notification[] = []
    const items: Notification[] = []
    for (const item of gathered.items) {
      if (item.expiresAt !== undefined && item.expiresAt <= now)
        ended.push(advance(item, [{ at: now, status: 'expired' }], { dueAt: now }))
      else if (isRefused(item)) refused.push(item)
      else items.push(item)
    }
    // A move is written with its notification's content; items for which that is too large are moved next time.
    for (const item of await digestItems.withText(refused, singleMax))
      ended.push(moveTo(item, now, evaluator.ineligibility({ notification: item, recipient })!))
    return { digest, recipient, now, policyVersion, items, gathered, ended, undo }
  }

  /** Counts the items that stay in the digest after `taken` have left. */
  const leftOf = ({ gathered, ended }: Closing, taken: number): number =>
    gathered.items.length - ended.length - taken

  const isLast = (closing: Closing, taken: number): boolean =>
    !closing.gathered.more && leftOf(closing, taken) === 0

  /** Closes the digest, or postpones it with the items that are left. */
  function closeOrPostpone(closing: Closing, taken: number, behind: Behind): DigestWrite {
    const { digest, gathered } = closing
    if (isLast(closing, taken)) return { kind: 'close', digest, left: 0 }
    // The digest has more items than one closing takes: it closes again at once.
    if (gathered.more || leftOf(closing, taken) > behind.items.length)
      return { kind: 'postpone', digest: putOff(digest, clock.now(), behind) }
    return postponed(closing, taken, behind)
  }

  function postponed(closing: Closing, taken: number, held: HeldUp): DigestWrite {
    const now = clock.now()
    const closesAt = Number.isFinite(held.until) ? Math.max(now + 1, held.until) : now + policy.maxDelayMs
    const digest = putOff(closing.digest, closesAt, held)
    return closing.gathered.more
      ? { kind: 'postpone', digest }
      : { kind: 'postpone', digest, left: leftOf(closing, taken) }
  }

  /** Notes the reason on items that stay in the digest, once for each. */
  function staying({ items, until }: Behind, now: number): readonly Move[] {
    const event = { at: now, status: 'digesting', reason: 'digest', detail: whyBehind } as const
    const patch = Number.isFinite(until) ? { dueAt: until } : {}
    return items
      .filter((item) => item.timeline.at(-1)?.detail !== whyBehind)
      .map((item) => advance(item, [event], patch))
  }

  function stayOpen(closing: Closing, held: HeldUp): Plan {
    const write = postponed(closing, 0, held)
    const isAsBefore = closing.ended.length === 0 && isSameHold(write.digest, closing.digest)
    return { accept: [], moves: closing.ended, digests: isAsBefore ? [] : [write] }
  }

  async function oneByOne(
    closing: Closing,
    included: readonly Notification[],
    before: Behind,
    spec?: DigestSpec,
  ): Promise<Plan> {
    const { ended, recipient, now, undo } = closing
    const taken = await digestItems.withText(included, singleMax)
    const candidates: Candidate[] = taken.map((item) => ({
      notification: { ...item, single: true },
      recipient,
    }))
    await evaluator.evaluate(candidates, undo, {
      ...{ again: true, waitOnly: true, waited: true },
      ...(isHeldElsewhere === undefined ? {} : { isHeldElsewhere }),
    })
    const behind = spec === undefined ? before : await holdBehind(closing, spec, before)
    const moves = candidates.map(({ verdict }, index) =>
      moveTo(taken[index]!, now, { ...verdict!, patch: { ...verdict!.patch, single: true } }),
    )
    return {
      accept: [],
      moves: [...ended, ...moves, ...staying(behind, now)],
      digests: [closeOrPostpone(closing, taken.length, behind)],
    }
  }

  /** Takes items out of the digest without asking the limits: each is decided on its own, due now. */
  async function apart(closing: Closing): Promise<Plan> {
    const { items, ended, now } = closing
    const taken = await digestItems.withText(items, singleMax)
    const moves = taken.map((item) => {
      const detail = 'its digest could not be closed'
      const verdict = undecidedVerdict(policy.version, now, 'digest', { detail })
      return moveTo(item, now, { ...verdict, patch: { ...verdict.patch, single: true } })
    })
    return {
      accept: [],
      moves: [...ended, ...moves],
      digests: [closeOrPostpone(closing, taken.length, noneBehind)],
    }
  }

  async function together(closing: Closing, spec: DigestSpec): Promise<Plan> {
    const { digest, items, recipient, now, inTurn, undo } = closing
    const carrying = (included: readonly Notification[]): Notification => {
      const id = isLast(closing, included.length) ? digest.id : random.id(now)
      return digestOf({ ...digest, id }, spec, included, now)
    }
    const reserve = async (notification: Notification): Promise<Reservation> => {
      const reservationRequest = {
        notification,
        recipient,
        waitOnly: true,
        waited: true,
        inTurn,
        notBefore: now,
        horizonMs: 0,
      }
      let reservation: Reservation | undefined
      undo.add(async () => {
        if (reservation?.held === false || (await isHeldElsewhere?.(notification)) === true) return
        await limiter.takeBack([reservationRequest])
      })
      ;[reservation] = await limiter.reserve([reservationRequest])
      return reservation!
    }
    const whole = carrying(items)
    const reservation = await reserve(whole)
    if (reservation.held) return send(closing, spec, { notification: whole, items, reservation }, noneBehind)

    const { authors, earliest, first } = await admissibleAuthors(options, whole, {
      ...{ recipient, inTurn, notBefore: now },
    })
    // A limit of zero refuses the items too, each with its reason.
    if (authors.size === 0 && earliest === Number.POSITIVE_INFINITY)
      return oneByOne(closing, items, noneBehind)
    if (authors.size === 0)
      return stayOpen(closing, await hold(closing, { ...whole, actors: [first] }, earliest))
    const included = items.filter((item) => authors.has(item.actor ?? ''))
    const behind = {
      items: items.filter((item) => !authors.has(item.actor ?? '')),
      until: earliest,
      author: first,
    }
    if (included.length < spec.minItems) return oneByOne(closing, included, behind, spec)
    const notification = carrying(included)
    const second = await reserve(notification)
    if (!second.held) return stayOpen(closing, await hold(closing, notification, second.at))
    const later = await holdBehind(closing, spec, behind)
    return send(closing, spec, { notification, items: included, reservation: second }, later)
  }

  async function send(
    closing: Closing,
    spec: DigestSpec,
    outgoing: { notification: Notification; items: readonly Notification[]; reservation: Reservation },
    behind: Behind,
  ): Promise<Plan> {
    const { ended, now, policyVersion } = closing
    const { notification, items, reservation } = outgoing
    const { id } = notification
    const shown = await digestItems.shown(items, spec.maxItems)
    // The digest leaves now or not at all, so quiet hours cannot have set its time.
    const verdict = reservedVerdict({
      policyVersion,
      now: clock.now(),
      reservation,
      forbiddenHours: undefined,
    })
    const { notification: sent, content } = storedContent({
      ...notification,
      data: digestData(shown, items.length),
      status: verdict.status,
      dueAt: verdict.dueAt,
      decision: verdict.decision,
      timeline: [{ at: now, status: 'accepted', detail: `digest of ${items.length}` }, eventOf(now, verdict)],
    })
    const merged = items.map((item) =>
      advance(item, [{ at: now, status: 'merged', detail: id }], { dueAt: now, digestId: id }),
    )
    return {
      ...(content === undefined ? {} : { contents: [content] }),
      accept: [sent],
      moves: [...ended, ...merged, ...staying(behind, now)],
      digests: [closeOrPostpone(closing, items.length, behind)],
    }
  }

  /**
   * Gives up what this process has reserved for a digest that is closed by now. What stands under its id besides is the place
   * of the notification that it became.
   */
  async function giveUp({ id, tenant }: Digest): Promise<void> {
    const known = places.forget(id)
    if (known !== undefined && !hasBooked(await store.notification(tenant, id), { timeline: [] }))
      await limiter.takeBack([known])
  }

  return {
    async plan(digest, extent, undo) {
      const spec = policy.digest(digest.name)
      // A digest that is no longer in the policy sends its items one by one.
      const max =
        spec === undefined ? singleMax : Math.max(itemsMax[extent], extent === 'whole' ? spec.minItems : 0)
      let found = await closingOf(digest, max, undo)
      if (found.gathered.items.length === 0) {
        const open = await present(digest)
        if (open === undefined) {
          await giveUp(digest)
          return { accept: [], moves: [], digests: [] }
        }
        // Another process may have put it off since it was read.
        found = { ...found, digest: open }
      }
      const { letGo, ...turn } = await places.lift(found)
      const closing: Closing = { ...found, ...turn }
      let plan: Plan | undefined
      try {
        if (extent === 'apart') plan = await apart(closing)
        else if (spec === undefined || closing.items.length < spec.minItems)
          plan = await oneByOne(closing, closing.items, noneBehind)
        else plan = await together(closing, spec)
        return plan
      } finally {
        await letGo(plan?.accept[0])
      }
    },
    present,
  }
}
