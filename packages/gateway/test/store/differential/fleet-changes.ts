/** Random changes by several processes: each is applied by both records, or refused by both for the same reasons. */
import assert from 'node:assert/strict'
import { advance, type Job } from '../../../src/model.ts'
import type { Change, StoredRecipient } from '../../../src/ports.ts'
import { people, recipientOf, tenants } from './fleet-overview.ts'
import { both } from './fleet-pair.ts'
import { texts } from './fleet-traffic.ts'
import type { FleetWorld } from './fleet-world.ts'

export function changesOf(world: FleetWorld): readonly (() => Promise<unknown>)[] {
  const { pair, rows, digests, jobs, now, living, anyMember, waiting, itemsOf, commit } = world
  const { below, pick, fresh, waitsForLimit, moveOf, digestFor, newName } = world
  /** The generations that were begun, by tenant. */
  const generations = new Map<string, number>()

  /** Accepts, now and then under an id that is known, or a version or a generation that has passed. */
  async function accept(): Promise<void> {
    const accepted = Array.from({ length: 1 + below(3) }, () => fresh())
    if (below(6) === 0) accepted.push(waitsForLimit())
    if (below(12) === 0 && rows.size > 0) {
      const { id, tenant } = pick([...rows.values()])
      accepted.push(fresh({ id, tenant }))
    }
    const { tenant, to } = accepted[0]!
    const number = (generations.get(tenant) ?? 0) - (below(6) === 0 ? 1 : 0)
    await commit(anyMember(), {
      accept: accepted,
      ...(below(3) === 0 ? { decidedFor: [{ tenant, recipient: to.id, version: pick([0, 0, 0, -1]) }] } : {}),
      ...(below(4) === 0 ? { generations: [{ tenant, state: 'throttle', number }] } : {}),
    })
  }

  async function move(): Promise<void> {
    const list = waiting()
    if (list.length === 0) return
    const chosen = new Set(Array.from({ length: 1 + below(3) }, () => pick(list)))
    const moves = [...chosen].map((before) => {
      const wanted = moveOf(before)
      return below(10) === 0 ? { ...wanted, before: { ...before, attempts: before.attempts + 1 } } : wanted
    })
    await commit(anyMember(), { moves, accept: below(4) === 0 ? [fresh()] : [] })
  }

  /** Opens a digest or joins it, with a new notification and now and then with one that waits. */
  async function collect(): Promise<void> {
    const [tenant, recipient] = [pick(tenants), pick(people)]
    const digest = digestFor(tenant, recipient)
    const kind = pick(['open', 'open', 'join'] as const)
    const item = fresh({ tenant, to: { id: recipient }, status: 'digesting', digestId: digest.id })
    const list = waiting().filter((row) => row.tenant === tenant && row.status !== 'dead')
    const joins =
      list.length > 0 && below(3) === 0
        ? [advance(pick(list), [{ at: now(), status: 'digesting' }], { digestId: digest.id })]
        : []
    await commit(anyMember(), { digests: [{ kind, digest }], accept: [item], moves: joins })
  }

  /** Closes a digest or postpones it; now and then one of its items was forgotten. */
  async function close(): Promise<void> {
    if (digests.length === 0) return
    const digest = pick(digests)
    const items = itemsOf(digest)
    const some = below(3) === 0 ? items.slice(1) : items
    const moves = some.map((item) =>
      below(4) === 0
        ? advance(item, [{ at: now(), status: 'scheduled' }], {
            dueAt: pick([item.dueAt, now(), now() + 9]),
          })
        : advance(item, [{ at: now(), status: 'merged' }]),
    )
    if (below(2) === 0) {
      const summary = fresh({ id: digest.id, tenant: digest.tenant, to: { id: digest.recipient } })
      await commit(anyMember(), { digests: [{ kind: 'close', digest, left: 0 }], moves, accept: [summary] })
      return
    }
    const left = items.length - some.length + (below(5) === 0 ? 1 : 0)
    const later = { ...digest, closesAt: now() + 50 }
    await commit(anyMember(), {
      digests: [{ kind: 'postpone', digest: later, ...(below(3) > 0 ? { left } : {}) }],
      moves,
    })
  }

  /** Writes a recipient over the version that was read, or over another one. */
  async function writeRecipient(): Promise<void> {
    const member = living()
    const [tenant, id] = [pick(tenants), pick(people)]
    const [known, own] = await both(member, (store) => store.recipient(tenant, id))
    assert.deepEqual(recipientOf(own), recipientOf(known))
    const optOuts = pick([[], [{ category: 'news' }], [{ channel: 'sms' as const }]])
    const email = `${pick(texts).replace('\0', '')}@x`
    const off = below(5) === 0 ? 1 : 0
    // Each record numbers its versions itself.
    const changeOf = (read: StoredRecipient | undefined): Change => ({
      recipients: [{ tenant, id, email, optOuts, version: (read?.version ?? read?.left ?? 0) + off }],
    })
    const answers = [await member.model.commit(changeOf(known)), await member.engine.commit(changeOf(own))]
    assert.deepEqual(answers[1], answers[0])
  }

  async function beginGeneration(): Promise<void> {
    const tenant = pick(tenants)
    if (below(3) > 0) return
    const [expected, found] = pair.records
    const number = await expected.nextThrottleGeneration(tenant)
    assert.equal(await found.nextThrottleGeneration(tenant), number)
    generations.set(tenant, number)
  }

  async function openJob(): Promise<void> {
    const id = newName()
    const tenant = pick(tenants)
    const shared = { id: `c${id}`, bytes: 9 }
    const refused = [{ recipient: pick(people), code: 'X', detail: pick(texts) }]
    const job = {
      ...{ id, tenant, module: 'm', createdAt: now(), status: 'running', total: 9, taken: 0 },
      ...{ refused, shared, bytes: 5 },
    } as unknown as Job
    const message = { channel: 'email', category: 'news', priority: 'normal' } as const
    const recipients = people.map((each) => ({ id: each, data: { text: pick(texts) } }))
    const { content: _, ...item } = fresh({ tenant, job: id, shared })
    const contents = [{ ...shared, tenant, content: { text: pick(texts) } }]
    const opened = { kind: 'open', job, work: { message, recipients } } as const
    if (await commit(anyMember(), { contents, jobs: [opened], accept: [item] })) jobs.push(job)
  }

  /** Takes the next step of a job, as it was read now or before. */
  async function workOnJob(): Promise<void> {
    const running = jobs.filter(({ status }) => status === 'running')
    if (running.length === 0 || below(3) === 0) return openJob()
    const member = anyMember()
    const known = pick(running)
    const { id, tenant } = known
    const before = pick([known, (await member.model.job(tenant, id)) ?? known])
    const status = below(3) === 0 ? pick(['done', 'cancelled'] as const) : 'running'
    const after: Job = { ...before, taken: before.taken + 1, status }
    const { content: _, ...item } = fresh({ tenant, job: id, shared: before.shared! })
    if (await commit(member, { jobs: [{ kind: 'move', before, after }], accept: [item] }))
      jobs[jobs.indexOf(known)] = after
  }

  async function writeHold(): Promise<void> {
    const name = pick(['night', 'Night', 'complaints/acme\nnews'])
    const until = now() + below(5)
    const account = { channel: 'email', provider: 'smtp', account: pick(['a', 'b']) } as const
    await commit(anyMember(), {
      holds: [
        below(2) === 0
          ? { kind: 'put', hold: { name, since: now(), until, reason: pick(texts) } }
          : { kind: 'end', name, ...(below(2) === 0 ? { until } : {}) },
      ],
      accounts: [{ ...account, ...(below(2) === 0 ? { blockedUntil: until } : {}) }],
    })
  }

  return [accept, move, collect, close, writeRecipient, beginGeneration, workOnJob, writeHold]
}
