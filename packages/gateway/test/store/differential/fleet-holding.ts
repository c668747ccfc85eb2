/** Random calls by which several processes take notifications from each other: claims, rights to send, deaths, takeovers. */
import assert from 'node:assert/strict'
import type { HeldName } from '../../../src/ports/fleet.ts'
import { all, sorted } from './everything.ts'
import { tenants } from './fleet-overview.ts'
import type { Member } from './fleet-pair.ts'
import { channels } from './fleet-traffic.ts'
import type { FleetWorld } from './fleet-world.ts'

/** A claim looks at most so far ahead, ms. */
const aheadMs = 2_000

export function holdingOf(world: FleetWorld): readonly (() => Promise<unknown>)[] {
  const { pair, rows, members, dead, closed, counts, now, living, anyMember, waiting, compare } = world
  const { below, pick } = world
  const someTenants = () => tenants.filter(() => below(8) === 0)

  /** Claims what is due, and gives some of it back, and some of what this process may not hold. */
  async function claim(): Promise<void> {
    const member = anyMember()
    const without = someTenants()
    const passed = channels.filter(() => below(8) === 0)
    const missing = ['x/email', 'x/sms', 'new-comment/email'].filter(() => below(4) === 0)
    const until = Math.min(pick([now(), now() + 10, now() - 20, Number.MAX_SAFE_INTEGER]), now() + aheadMs)
    const found = await compare(
      'claim',
      member,
      (store) => store.claimDue(until, all, without, passed, missing),
      sorted,
    )
    counts.claimed += found?.[0].length ?? 0
    const own = found?.[0].filter(() => below(3) === 0) ?? []
    const back = [...own, ...waiting().filter(() => below(4) === 0)]
    await compare('give back', member, (store) => store.releaseDue(back))
  }

  /**
   * Asks for the right to send, now and then of a version that has passed, or for a recipient who was not read. Nobody asks for
   * that to a dead letter: it is queued first.
   */
  async function begin(): Promise<void> {
    const list = waiting().filter(({ status }) => status !== 'dead')
    if (list.length === 0) return
    const chosen = new Set(Array.from({ length: 1 + below(4) }, () => pick(list)))
    const asked = [...chosen].map((row) => (below(8) === 0 ? { ...row, attempts: row.attempts + 1 } : row))
    const member = anyMember()
    const isUnread = below(4) === 0
    member.setClock(now())
    const found = await compare(
      'begin',
      member,
      async (store) => {
        const read = (tenant: string, id: string) => (isUnread ? null : store.recipient(tenant, id))
        const requests = asked.map(async (notification) => ({
          notification,
          recipient: (await read(notification.tenant, notification.to.id)) ?? null,
        }))
        return store.begin(await Promise.all(requests))
      },
      ({ refused, outdated = new Set() }) => [[...refused].sort(), [...outdated].sort()],
    )
    if (found !== undefined) counts.begun += asked.length - found[0].refused.size
  }

  /** Looks through what a process holds on record, ends some of its rights, or takes some back. */
  async function sweep(): Promise<void> {
    const member = living()
    member.setClock(now())
    const limit = 1 + below(5)
    for (let after: HeldName | null = null; ; ) {
      const from: HeldName | null = after
      const found: readonly [readonly HeldName[], readonly HeldName[]] | undefined = await compare(
        'held',
        member,
        (store) => store.heldOnRecord(now(), from, limit),
        (list) =>
          list.map(({ tenant, id, dueAt, right }) => `${tenant} ${id} ${dueAt} ${right !== undefined}`),
      )
      if (found === undefined) return
      if (below(3) === 0) await keepFew(member, found)
      if (found[0].length < limit) return
      after = found[0].at(-1)!
    }
  }

  /** Each record marks rights in its own way. */
  async function keepFew(member: Member, found: readonly [readonly HeldName[], readonly HeldName[]]) {
    const some = new Set(found[0].filter(() => below(2) === 0).map(({ id }) => id))
    const [ours, theirs] = found.map((list) => list.filter(({ id }) => some.has(id))) as [
      HeldName[],
      HeldName[],
    ]
    if (below(2) === 0) {
      await member.model.endRights(ours.filter(({ right }) => right !== undefined))
      await member.engine.endRights(theirs.filter(({ right }) => right !== undefined))
      return
    }
    const back = await compare('take back', member, (store) => store.takeBack(now(), ours), sorted)
    for (const { notification } of back?.[0] ?? []) rows.set(notification.id, notification)
    counts.taken += back?.[0].length ?? 0
  }

  async function takeOver(): Promise<void> {
    const without = someTenants()
    const found = await compare(
      'take over',
      anyMember(),
      (store) => store.takeOver(now(), all, without),
      sorted,
    )
    for (const { notification } of found?.[0] ?? []) rows.set(notification.id, notification)
    counts.takenOver += found?.[0].length ?? 0
  }

  /** Declares a process dead, or closes one, cleanly or not; another one joins; the counts of one that is gone are folded. */
  async function die(): Promise<void> {
    if (below(8) > 0) return
    if (members.length > 1) {
      const member = living()
      members.splice(members.indexOf(member), 1)
      member.setClock(now())
      if (below(3) > 0) {
        dead.push(member)
        await pair.kill(member)
        counts.killed += 1
      } else {
        closed.push(member)
        const isSettled = below(2) === 0
        await compare('close', member, (store) => store.close(isSettled))
        counts.closed += 1
      }
    }
    if (members.length < 2) members.push(await pair.join())
    const gone = [...dead, ...closed]
    if (gone.length === 0 || below(2) === 0) return
    const member = pick(gone)
    const [expected, found] = await pair.settleDead(member)
    assert.equal(found, expected, `settle ${member.id} at ${now()}`)
  }

  return [claim, begin, sweep, takeOver, die]
}
