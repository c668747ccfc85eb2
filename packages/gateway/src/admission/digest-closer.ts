/**
 * The end of a digest's window. Few items leave one by one, each under the limits; more leave as one notification,
 * which counts once against its channel and category and once for every author in it. While a limit does not admit
 * it, the digest stays open and goes on collecting. All of it is one commit: whatever dies, each item is in exactly
 * one place.
 */

import type { Agenda, Book, Ledger } from '../doors.ts'
import type { Digest, JsonObject, Move, Notification, Priority } from '../model.ts'
import { advance, priorities } from '../model.ts'
import type { DigestSpec, Policy } from '../policy/policy.ts'
import type { Clock, DigestWrite, Random, Store } from '../ports.ts'
import { bookedVerdict, type Case, eventOf } from './case.ts'
import { type Decider, moveTo } from './decider.ts'
import type { GiveBack } from './giving-back.ts'
import type { Hours } from './hours.ts'
import type { OpenDigests } from './open-digests.ts'
import type { PeopleCache } from './people.ts'

export interface DigestCloserOptions {
  readonly store: Store
  readonly ledger: Ledger
  readonly book: Book
  readonly people: PeopleCache
  readonly policy: Policy
  readonly agenda: Agenda
  readonly digests: OpenDigests
  readonly decider: Decider
  readonly hours: Hours
  readonly giveBack: GiveBack
  readonly clock: Clock
  readonly random: Random
}

export interface DigestCloser {
  close(digest: Digest): Promise<void>
}

/** What a closing writes, and what it holds in the limits until then. */
interface Plan {
  readonly accept: readonly Notification[]
  readonly moves: readonly Move[]
  readonly digests: readonly DigestWrite[]
  readonly held: readonly Case[]
}

const triesMax = 8

export function createDigestCloser(options: DigestCloserOptions): DigestCloser {
  const { store, ledger, book, people, policy, agenda, digests, decider, hours, giveBack, clock, random } =
    options

  async function close(digest: Digest): Promise<void> {
    digests.forget(digest)
    for (let tries = 0; tries < triesMax; tries += 1) {
      const plan = await planFor(digest)
      let result: Awaited<ReturnType<Ledger['commit']>>
      try {
        result = await ledger.commit(plan)
      } catch (error) {
        await decider.takeBack(plan.held)
        throw error
      }
      if (result.applied) {
        agenda.place([...plan.accept, ...plan.moves.map((move) => move.after)])
        for (const { before, after } of plan.moves) {
          if (after.status === 'suppressed') await giveBack(before, after.status)
        }
        for (const write of plan.digests) if (write.kind !== 'close') agenda.noteDigest(write.digest.closesAt)
        return
      }
      await decider.takeBack(plan.held)
      if ((await store.openDigest(digest))?.id !== digest.id) return
    }
  }

  async function planFor(digest: Digest): Promise<Plan> {
    const now = clock.now()
    const person = await people.find(digest.tenant, digest.recipient)
    const ended: Move[] = []
    const items: Notification[] = []
    for (const item of await store.digestItems(digest)) {
      const refusal = decider.refusal({ notification: item, person })
      if (item.expiresAt !== undefined && item.expiresAt <= now) {
        ended.push(advance(item, [{ at: now, status: 'expired' }], { dueAt: now }))
      } else if (refusal !== undefined) {
        ended.push(moveTo(item, now, refusal))
      } else {
        items.push(item)
      }
    }
    const spec = policy.digest(digest.name)
    // A digest that the policy no longer knows lets its items go one by one.
    if (spec === undefined || items.length < spec.minItems) return oneByOne(digest, items, ended, person, now)
    return together(digest, spec, items, ended, person, now)
  }

  async function oneByOne(
    digest: Digest,
    items: readonly Notification[],
    ended: readonly Move[],
    person: Case['person'],
    now: number,
  ): Promise<Plan> {
    const cases: Case[] = items.map((item) => ({ notification: { ...item, single: true }, person }))
    await decider.decide(cases, { again: true, patient: true })
    const moves = cases.map((each, index) =>
      moveTo(items[index]!, now, { ...each.verdict!, patch: { ...each.verdict!.patch, single: true } }),
    )
    return { accept: [], moves: [...ended, ...moves], digests: [{ kind: 'close', digest }], held: cases }
  }

  async function together(
    digest: Digest,
    spec: DigestSpec,
    items: readonly Notification[],
    ended: readonly Move[],
    person: Case['person'],
    now: number,
  ): Promise<Plan> {
    const whole = digestOf(digest, spec, items, now)
    const asking = { notification: whole, person, patient: true, notBefore: now, horizonMs: 0 }
    let [booking] = await book.reserve([asking])
    let leaving = items
    let notification = whole
    if (!booking!.held) {
      const free = await admissibleAuthors(whole, person, now)
      // A limit of nothing refuses the items too, each with its reason.
      if (free.earliest === Number.POSITIVE_INFINITY && free.authors.size === 0)
        return oneByOne(digest, items, ended, person, now)
      if (free.authors.size === 0) return stayOpen(digest, ended, Math.max(now + 1, free.earliest))
      leaving = items.filter((item) => free.authors.has(item.actor ?? ''))
      notification = digestOf(digest, spec, leaving, now)
      ;[booking] = await book.reserve([{ ...asking, notification }])
      if (!booking!.held) return stayOpen(digest, ended, Math.max(now + 1, booking!.at))
    }
    const verdict = bookedVerdict({
      policyVersion: policy.version,
      now: clock.now(),
      booking: booking!,
      hours: hours.reasonAt(notification, person, now),
    })
    const sent: Notification = {
      ...notification,
      status: verdict.status,
      dueAt: verdict.dueAt,
      decision: verdict.decision,
      timeline: [
        { at: now, status: 'accepted', detail: `digest of ${leaving.length}` },
        eventOf(now, verdict),
      ],
    }
    const merged = leaving.map((item) =>
      advance(item, [{ at: now, status: 'merged', detail: digest.id }], { dueAt: now, digestId: digest.id }),
    )
    const behind = items.filter((item) => !leaving.includes(item))
    const rest = leaveBehind(digest, behind, now, (await admissibleAfter(behind, whole, person)) ?? now + 1)
    return {
      accept: [sent],
      moves: [...ended, ...merged, ...rest.moves],
      digests: [{ kind: 'close', digest }, ...rest.digests],
      held: [{ notification: sent, person, verdict }],
    }
  }

  /** Items whose author is at the cap go on collecting under a digest of their own. */
  function leaveBehind(
    digest: Digest,
    items: readonly Notification[],
    now: number,
    closesAt: number,
  ): { readonly moves: readonly Move[]; readonly digests: readonly DigestWrite[] } {
    if (items.length === 0) return { moves: [], digests: [] }
    const next: Digest = { ...digest, id: random.id(now), closesAt: Math.max(closesAt, now + 1) }
    const event = {
      at: now,
      status: 'digesting',
      reason: 'digest',
      detail: 'its author is at the limit',
    } as const
    return {
      moves: items.map((item) => advance(item, [event], { dueAt: next.closesAt, digestId: next.id })),
      digests: [{ kind: 'open', digest: next }],
    }
  }

  function stayOpen(digest: Digest, ended: readonly Move[], closesAt: number): Plan {
    const closes = Number.isFinite(closesAt) ? closesAt : clock.now() + policy.maxDelayMs
    return {
      accept: [],
      moves: ended,
      digests: [{ kind: 'postpone', digest: { ...digest, closesAt: closes } }],
      held: [],
    }
  }

  /** The authors of a digest that their limits would admit now, and when the first of the others is. */
  async function admissibleAuthors(digest: Notification, person: Case['person'], now: number) {
    const authors = new Set<string>()
    let earliest = Number.POSITIVE_INFINITY
    for (const author of digest.actors ?? []) {
      const [booking] = await book.preview([
        { notification: { ...digest, actors: [author] }, person, patient: true, notBefore: now },
      ])
      if (booking!.at <= now) authors.add(author)
      else earliest = Math.min(earliest, booking!.at)
    }
    return { authors, earliest }
  }

  async function admissibleAfter(
    items: readonly Notification[],
    digest: Notification,
    person: Case['person'],
  ) {
    if (items.length === 0) return undefined
    const actors = [...new Set(items.map((item) => item.actor ?? ''))]
    const { authors, earliest } = await admissibleAuthors({ ...digest, actors }, person, clock.now())
    return authors.size > 0 ? undefined : earliest
  }

  return { close }
}

/** The one notification that carries the items. */
function digestOf(
  digest: Digest,
  spec: DigestSpec,
  items: readonly Notification[],
  now: number,
): Notification {
  const first = items[0]!
  const shown = items.slice(0, spec.maxItems)
  const data: JsonObject = {
    items: shown.map(shownItem),
    totalCount: items.length,
    hasMore: items.length > shown.length,
  }
  return {
    id: digest.id,
    tenant: digest.tenant,
    module: first.module,
    to: items.at(-1)!.to,
    channel: digest.channel,
    category: digest.category,
    priority: mostUrgent(items),
    template: spec.template,
    data,
    actors: [...new Set(items.map((item) => item.actor ?? ''))],
    createdAt: now,
    fingerprint: digest.id,
    status: 'accepted',
    dueAt: now,
    decision: first.decision,
    digestId: digest.id,
    single: true,
    attempts: 0,
    timeline: [],
  }
}

function shownItem(item: Notification): JsonObject {
  const { id, template, actor, data, content, createdAt } = item
  return {
    notificationId: id,
    ...(template === undefined ? {} : { template }),
    ...(actor === undefined ? {} : { actor }),
    ...(data === undefined ? {} : { data }),
    ...(content === undefined ? {} : { content: { ...content } as JsonObject }),
    at: new Date(createdAt).toISOString(),
  }
}

function mostUrgent(items: readonly Notification[]): Priority {
  return priorities.find((priority) => items.some((item) => item.priority === priority)) ?? 'normal'
}
