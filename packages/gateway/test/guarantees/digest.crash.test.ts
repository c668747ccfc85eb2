/**
 * The closing of digests, cut off at every one of its commits in turn, once just before and once just after it. The
 * gateway that dies leaves its database as it was at that moment; another one opens it. Whatever the moment, each item
 * reaches its recipient in exactly one notification.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Store } from '../../src/ports.ts'
import { createHarness, densest, type Harness, hour, minute, type Sent, second } from '../harness.ts'
import { type Mortal, mortal } from './mortal.ts'

const policy = {
  version: 1,
  limits: [
    { name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['1/6h'], over: 'digest:news' },
    { name: 'all', for: 'any', max: ['2/30min'], over: 'delay' },
  ],
  digests: [
    {
      name: 'news',
      for: { template: 'new-comment' },
      window: '60min',
      minItems: 3,
      maxItems: 4,
      template: 'activity-digest',
    },
  ],
}

const item = (recipient: string, actor: string, index: number) => ({
  recipient,
  actor,
  template: 'new-comment',
  data: { index, actor },
})

/** A digest that leaves, one that goes item by item, one that leaves an author behind, one that a limit holds open. */
async function collect(harness: Harness): Promise<readonly string[]> {
  const text = (index: number) => ({ subject: `${index}`, text: `${index}` })
  await harness.post({ recipient: 'eve', actor: 'bob', content: text(0) })
  const items = [
    ...[0, 1, 2, 3, 4].map((index) => item('ada', 'bob', index)),
    ...[0, 1].map((index) => item('fay', `author-${index}`, index)),
    ...[0, 1, 2].flatMap((index) => [item('eve', 'bob', index), item('eve', 'gus', index)]),
    ...[0, 1, 2].map((index) => item('max', 'bob', index)),
    ...[0, 1, 2, 3].map((index) => item('zoe', 'bob', index)),
  ]
  const ids: string[] = []
  for (const each of items) ids.push((await harness.post(each)).id)
  await harness.runFor(50 * minute)
  for (const index of [1, 2]) await harness.post({ recipient: 'max', content: text(index) })
  return ids
}

interface Ended {
  readonly ids: readonly string[]
  /** The messages that arrived before the end. */
  readonly sent: readonly Sent[]
  /** When. */
  readonly at: number
}

/** A life up to its n-th commit of the closing; undefined where it has not as many. */
async function live(
  file: string,
  copy: string,
  commits: number,
  how: 'before' | 'after',
): Promise<Ended | undefined> {
  let life: Mortal | undefined
  const wrap = (store: Store): Store => {
    life = mortal(store, file, copy)
    return life.store
  }
  const harness = await createHarness({ policy, file, wrap })
  const ids = await collect(harness)
  let sent: readonly Sent[] = []
  let at = 0
  life!.arm(commits, how, () => {
    sent = [...harness.sent()]
    at = harness.clock.now()
  })
  const until = harness.clock.now() + 12 * hour
  while (!life!.dead && harness.clock.now() < until) await harness.runFor(minute)
  if (life!.dead) return { ids, sent, at }
  await harness.stop()
  return undefined
}

/** The items that a notification carries to its recipient. */
function carried({ id, message }: Sent): readonly string[] {
  const { items } = (message.data ?? {}) as { items?: readonly { notificationId: string }[] }
  return items === undefined ? [id] : items.map(({ notificationId }) => notificationId)
}

/** The life after: returns how many were sent a second time. */
async function goOn(copy: string, { ids, sent, at }: Ended): Promise<number> {
  const harness = await createHarness({ policy, file: copy, start: at + 5 * second })
  await harness.runFor(12 * hour)
  const all = [...sent, ...harness.sent()]
  const byId = Map.groupBy(all, ({ id }) => id)
  for (const id of ids) {
    const { status, digestId } = await harness.notification(id)
    assert.ok(status === 'merged' || status === 'delivered', `${id} is ${status}`)
    const carriers = [...byId]
      .filter(([, those]) => carried(those[0]!).includes(id))
      .map(([carrier]) => carrier)
    const shown = status === 'delivered' ? id : digestId!
    // A digest shows at most four of its items.
    assert.ok(carriers.length === 1 ? carriers[0] === shown : status === 'merged' && carriers.length === 0)
    assert.equal((await harness.notification(shown)).status, 'delivered')
    assert.ok(byId.has(shown), `${shown} has arrived`)
  }
  const totals = [...byId.values()].map(
    ([one]) => (one!.message.data as { totalCount?: number })?.totalCount ?? 1,
  )
  assert.equal(
    totals.reduce((sum, total) => sum + total),
    ids.length + 3,
    'each item is counted once',
  )
  for (const [who, theirs] of Map.groupBy(all, ({ recipient }) => recipient)) {
    const instants = theirs.map((each) => each.at)
    assert.ok(densest(instants, 30 * minute) <= 2, `${who} has no window over its limit, doubles counted`)
  }
  const twice = [...byId.values()].filter((those) => those.length > 1)
  for (const [first, ...more] of twice)
    assert.ok(more.length === 1 && first!.at === at, 'twice is sent only what was in flight at the end')
  await harness.check()
  await harness.stop()
  return twice.length
}

test('whenever a gateway dies while digests close, each item arrives in exactly one notification', async (t: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-digest-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  let ends = 0
  let doubles = 0
  for (const how of ['before', 'after'] as const) {
    for (let commits = 1; ; commits += 1) {
      const file = join(folder, `${how}-${commits}.db`)
      const copy = join(folder, `${how}-${commits}-copy.db`)
      const ended = await live(file, copy, commits, how)
      if (ended === undefined) break
      ends += 1
      const twice = await goOn(copy, ended).catch((error) => {
        throw new Error(`died just ${how} commit ${commits}`, { cause: error })
      })
      doubles += twice
    }
  }
  t.diagnostic(`${ends} ends, ${doubles} notifications sent twice`)
  assert.ok(ends >= 20, `${ends} ends`)
})
