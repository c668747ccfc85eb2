/**
 * One sequence of random calls to two stores, of which one is the model: every answer compared, and now and then everything
 * that both have on record. The store in memory is the model of the simulator: what it allows, an engine must allow, and
 * nothing else.
 */
import assert from 'node:assert/strict'
import { epoch, settled, someNotification } from '../../../src/conformance/store/sample.ts'
import { advance, type Digest, isFinal, type Job, type Notification } from '../../../src/model.ts'
import type { Change, Store } from '../../../src/ports.ts'
import { seeded } from '../../harness.ts'
import { all, everything, people, plain, sorted, tenants } from './everything.ts'

export interface StoreSequence {
  readonly seed: number
  /** Calls of the sequence. */
  readonly steps: number
  readonly model: Store
  readonly engine: Store
  /** Kinds of calls to which the two may give different answers. */
  readonly without: readonly ('rights' | 'retention' | 'erasure' | 'earliest')[]
}

export interface ComparedStores {
  readonly applied: number
  /** Changes that both stores refused as a whole. */
  readonly refused: number
  readonly onRecord: number
}

/** Calls between two comparisons of everything. */
const everythingEvery = 250

/** Runs one sequence over two stores that are empty; throws at the first difference. */
export async function compareStores(sequence: StoreSequence): Promise<ComparedStores> {
  const { seed, steps, model, engine, without: leftOut } = sequence
  const chance = seeded(seed)
  const below = (count: number): number => Math.floor(chance() * count)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  const rows = new Map<string, Notification>()
  const removed = new Set<string>()
  const digests: Digest[] = []
  const jobs: Job[] = []
  let made = 0
  let until = epoch
  let applied = 0
  let refused = 0
  const both = async <T>(call: (store: Store) => T | Promise<T>): Promise<readonly [T, T]> => [
    await call(model),
    await call(engine),
  ]

  async function commit(change: Change): Promise<boolean> {
    const [expected, found] = await both((store) => store.commit(change))
    const outcome = (result: typeof expected): readonly string[] =>
      result.applied ? [] : [...new Set(result.conflicts.map(({ kind, key }) => `${kind} ${key}`))].sort()
    assert.deepEqual(outcome(found), outcome(expected), JSON.stringify(change))
    if (!expected.applied) {
      refused += 1
      return false
    }
    applied += 1
    for (const each of change.accept ?? []) rows.set(each.id, each)
    for (const { after: moved } of change.moves ?? []) rows.set(moved.id, moved)
    return true
  }

  function fresh(patch: Partial<Notification> = {}): Notification {
    made += 1
    const at = epoch + made
    return someNotification({
      id: `n${String(made).padStart(6, '0')}`,
      createdAt: at,
      dueAt: at + below(40),
      tenant: pick(tenants),
      to: { id: pick(people), email: 'a@example.com' },
      channel: pick(['email', 'sms']),
      priority: pick(['high', 'normal']),
      status: pick(['queued', 'scheduled', 'scheduled', 'suppressed']),
      bytes: below(100),
      ...(below(6) === 0 ? { actor: pick(people) } : {}),
      ...patch,
    })
  }

  /** Notifications that wait behind a tenant's limit count apart. */
  const throttled = (row: Notification): Notification => ({
    ...row,
    status: 'scheduled',
    undecided: true,
    decision: { outcome: 'delay', reason: 'tenant_limit', at: row.dueAt, policyVersion: 'p1', rules: [] },
    timeline: [
      { at: row.createdAt, status: 'accepted' },
      { at: row.createdAt, status: 'scheduled', reason: 'tenant_limit' },
    ],
  })

  const openDigestOf = (tenant: string, recipient: string): Digest => {
    const known = digests.findLast((each) => each.tenant === tenant && each.recipient === recipient)
    if (known !== undefined && below(8) > 0) return known
    made += 1
    const digest: Digest = {
      id: `m${String(made).padStart(6, '0')}`,
      tenant,
      recipient,
      channel: 'email',
      category: 'activity',
      name: 'daily',
      openedAt: epoch + made,
      closesAt: epoch + made + below(100),
    }
    digests.push(digest)
    return digest
  }

  function moveOf(before: Notification) {
    const at = epoch + made
    switch (below(6)) {
      case 0:
        return advance(before, [{ at, status: 'scheduled', reason: 'retry' }], {
          dueAt: before.dueAt + below(30) - 10,
          attempts: before.attempts + below(2),
        })
      case 1:
        return advance(before, [{ at, status: 'cancelled' }])
      case 2:
        return before.status === 'dead'
          ? advance(before, [{ at, status: 'queued' }])
          : advance(before, [{ at, status: 'dead', reason: pick(['shed', 'poison']) }])
      case 3:
        return advance(before, [{ at, status: 'queued' }], { turnedAt: at })
      default:
        return before.status === 'queued'
          ? settled(before, at)
          : advance(before, [{ at, status: 'suppressed', reason: 'opted_out' }])
    }
  }

  const waiting = (): readonly Notification[] =>
    [...rows.values()].filter(({ status }) => !isFinal(status) && status !== 'digesting')

  for (let step = 0; step < steps; step += 1) {
    const what = below(16)
    const some = waiting()
    if (what < 5) {
      const accept = Array.from({ length: 1 + below(3) }, () => fresh()).map((row) =>
        below(8) === 0 ? throttled(row) : row,
      )
      // A change with an id that is known leaves no trace.
      const known = below(10) === 0 && rows.size > 0 ? pick([...rows.values()]) : undefined
      if (known !== undefined) accept.push(fresh({ id: known.id, tenant: known.tenant }))
      await commit({ accept })
    } else if (what < 9 && some.length > 0) {
      const before = pick(some)
      const stale = below(8) === 0 ? { ...before, timeline: before.timeline.slice(0, 1) } : before
      const move = moveOf(before)
      await commit({ moves: [{ ...move, before: stale }], accept: below(3) === 0 ? [fresh()] : [] })
    } else if (what === 9) {
      const [tenant, recipient] = [pick(tenants), pick(people)]
      const digest = openDigestOf(tenant, recipient)
      const item = fresh({ tenant, to: { id: recipient }, status: 'digesting', digestId: digest.id })
      const kind = pick(['open', 'open', 'join'] as const)
      await commit({ digests: [{ kind, digest }], accept: [item] })
    } else if (what === 10 && digests.length > 0) {
      const digest = pick(digests)
      // The ids of notifications that were removed are not used again.
      if (removed.has(digest.id)) continue
      const items = [...rows.values()].filter(
        ({ status, digestId }) => status === 'digesting' && digestId === digest.id,
      )
      const some = below(4) === 0 ? items.slice(1) : items
      await commit({
        digests: [{ kind: 'close', digest, left: 0 }],
        moves: some.map((item) => advance(item, [{ at: epoch + made, status: 'merged' }])),
        accept: [fresh({ id: digest.id, tenant: digest.tenant, to: { id: digest.recipient } })],
      })
    } else if (what === 11) {
      const [tenant, id] = [pick(tenants), pick(people)]
      const recipient = { tenant, id, email: `${step}@example.com`, optOuts: [{ category: 'news' }] }
      const key = String(below(40))
      const answer = {
        ...{ tenant, module: 'm', method: 'POST', path: '/', key, requestHash: 'h', status: 202 },
        body: JSON.stringify({ recipient: id }),
        createdAt: epoch + made,
      }
      if (await commit({ recipients: [recipient], accept: [fresh()], answer })) {
        const [expected, found] = await both((store) => store.answer(answer))
        assert.deepEqual(plain(found), plain(expected))
      }
    } else if (what === 12) {
      made += 1
      const id = `j${made}`
      const shared = { id: `c${made}`, bytes: 9 }
      const job: Job = {
        ...{ id, tenant: pick(tenants), module: 'm', createdAt: epoch + made, status: 'running' },
        ...{ total: 2, taken: 0, refused: [], shared, bytes: 5 },
      } as Job
      jobs.push(job)
      const message = { channel: 'email', category: 'news', priority: 'normal' } as const
      const work = { message, recipients: people.map((each) => ({ id: each, email: 'x@example.com' })) }
      const { content: _, ...member } = fresh({ tenant: job.tenant, job: id, shared })
      const content = { ...shared, tenant: job.tenant, content: { text: 'hello' } }
      await commit({ contents: [content], jobs: [{ kind: 'open', job, work }], accept: [member] })
      if (below(2) === 0)
        await commit({ jobs: [{ kind: 'move', before: job, after: { ...job, taken: 2, status: 'done' } }] })
    } else if (what === 13) {
      // A clock that never steps: rows that were passed over are given whatever the instant of the next claim.
      until = Math.max(until, epoch + made + below(30))
      const without = tenants.filter(() => below(4) === 0)
      const [expected, found] = await both((store) => store.claimDue(until, all, without))
      assert.deepEqual(sorted(found), sorted(expected))
      assert.equal(engine.claimedUntil(), model.claimedUntil())
      const back = expected.filter(() => below(3) === 0)
      await both((store) => store.releaseDue(back))
    } else if (what === 14 && !leftOut.includes('rights') && some.length > 0) {
      const asked = [pick(some), pick(some)]
      const stale = below(4) === 0 ? asked.map((row) => ({ ...row, attempts: row.attempts + 1 })) : asked
      const requests = stale.map((notification) => ({ notification }))
      const [expected, found] = await both(async (store) => [...(await store.begin(requests)).refused].sort())
      assert.deepEqual(found, expected)
    } else if (what === 15 && below(6) === 0 && !leftOut.includes('erasure')) {
      const [tenant, recipient] = [pick(tenants), pick(people)]
      await both((store) => store.beginErasure(tenant, recipient))
      const [expected, found] = await both((store) => store.erase(tenant, recipient))
      assert.equal(found.done, expected.done)
      if (!expected.done && !found.done) assert.deepEqual([...found.open].sort(), [...expected.open].sort())
    } else if (what === 15 && below(3) === 0 && !leftOut.includes('retention')) {
      const before = { answers: epoch + made - 200, notifications: epoch + made - 200 }
      const [expected, found] = await both((store) => store.prune(before))
      assert.equal(found.rows, expected.rows)
      for (const [id, row] of rows)
        if ((await model.notification(row.tenant, id)) === undefined) {
          rows.delete(id)
          removed.add(id)
        }
    }
    if (step % everythingEvery === everythingEvery - 1 || step === steps - 1) {
      const known = digests.slice(-30)
      const [expected, found] = await both((store) => everything(store, known, jobs.slice(-10)))
      if (leftOut.includes('earliest')) found.nextDueAt = expected.nextDueAt
      assert.deepEqual(found, expected, `after call ${step}`)
    }
  }
  return { applied, refused, onRecord: rows.size }
}
