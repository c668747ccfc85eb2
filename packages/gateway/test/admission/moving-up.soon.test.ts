/**
 * A start behind very many who wait for one limit: those with the earliest instants are read from the record before the
 * others and move up, and a newcomer waits until all are known.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Draft, Notification } from '../../src/model.ts'
import type { Store } from '../../src/ports.ts'
import { createHarness, type Harness, hour, minute, second } from '../harness.ts'

const limited = (max: string, more: readonly object[] = []) => ({
  version: 1,
  maxDelay: '60d',
  limits: [{ name: 'all', for: 'any', per: ['tenant'], max: [max], over: 'delay' }, ...more],
})
/** With pages of four rows, forty notifications are very many. */
const parts = { recoveryRows: 4 }

interface Start {
  readonly waiting: number
  readonly before?: object
  readonly after?: object
  readonly draftOf?: (index: number) => Partial<Draft>
  readonly downMs?: number
}

/** Starts a gateway behind notifications that wait; its record answers no whole page but the first until `release`. */
async function startBehind(
  t: TestContext,
  { waiting, draftOf = () => ({}), downMs = minute, ...own }: Start,
) {
  const { before: policyBefore = limited('1/h'), after: policyAfter = limited('2/h') } = own
  const folder = mkdtempSync(join(tmpdir(), 'sluice-soon-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'sluice.db')
  const before = await createHarness({ file, policy: policyBefore, parts })
  const all: Notification[] = []
  for (let index = 0; index <= waiting; index += 1)
    all.push(await before.post({ to: { id: `r${index}`, email: 'a@b.c' }, ...draftOf(index) }))
  await before.stop()
  const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
  const again: Harness = await createHarness({
    file,
    policy: policyAfter,
    start: before.clock.now() + downMs,
    parts,
    stages: false,
    wrap: (store: Store) => ({
      ...store,
      async counted(query) {
        const isRest = query.within === undefined && query.cursor !== undefined
        if (query.recipient === undefined && isRest) await isReleased
        return store.counted(query)
      },
    }),
  })
  t.after(async () => {
    release()
    await again.runFor(minute)
    await again.stop()
  })
  return { again, file, release, ids: all.slice(1).map(({ id }) => id) }
}

const hoursOf = async (harness: Harness, ids: readonly string[]): Promise<readonly number[]> =>
  Promise.all(
    ids.map(async (id) => Math.round(((await harness.notification(id)).dueAt - harness.start) / hour)),
  )

test('the first who wait have their places on record before the others are read, and newcomers stand behind all', async (t) => {
  const { again, release, ids } = await startBehind(t, { waiting: 40 })
  await again.done(again.gateway.startStages())
  await again.runFor(second)
  const [first] = await Promise.all(ids.map((id) => again.notification(id)))
  assert.equal(first!.timeline.at(-1)?.detail, 'moved up')
  assert.equal(first!.dueAt, again.start, 'two an hour, and one was sent')
  const newcomer = again.post({ to: { id: 'new', email: 'a@b.c' } })
  await again.runFor(second)
  release()
  const { id } = await newcomer
  await again.runFor(second)
  const expected = ids.map((_, index) => Math.floor((index + 1) / 2))
  assert.deepEqual(await hoursOf(again, ids), expected)
  const last = await again.notification(ids.at(-1)!)
  assert.ok((await again.notification(id)).dueAt >= last.dueAt, 'the newcomer stands behind')
})

test('a stop while the others are still being read leaves them to the next start', async (t) => {
  const { again, release, ids, file } = await startBehind(t, { waiting: 40 })
  await again.done(again.gateway.startStages())
  await again.runFor(second)
  const stopping = again.stop()
  release()
  await again.runFor(minute)
  await again.done(stopping)
  const start = again.clock.now()
  const next = await createHarness({ file, policy: limited('2/h'), start, parts })
  t.after(() => next.stop())
  await next.runFor(second)
  const hours = await Promise.all(
    ids.map(async (id) => Math.round(((await next.notification(id)).dueAt - again.start) / hour)),
  )
  assert.deepEqual(
    hours,
    ids.map((_, index) => Math.floor((index + 1) / 2)),
  )
})

test('nobody moves up before one who was accepted earlier and is read later', async (t) => {
  const { again, release, ids } = await startBehind(t, {
    waiting: 40,
    draftOf: (index) => (index === 1 ? { sendAt: Date.UTC(2026, 10, 23, 12) } : {}),
  })
  await again.done(again.gateway.startStages())
  await again.runFor(second)
  const next = await again.notification(ids[1]!)
  assert.equal(next.timeline.at(-1)?.reason, 'recipient_limit', 'it has not moved')
  release()
  await again.runFor(second)
  const hours = await hoursOf(again, ids)
  assert.deepEqual(
    [hours[0], ...hours.slice(1, 6)],
    [48, 0, 1, 1, 2, 2],
    'the others move up when all are known',
  )
})

test('what became due while no gateway ran leaves in its order before the others are read', async (t) => {
  const { again, release, ids } = await startBehind(t, { waiting: 40, downMs: 2 * hour + minute })
  await again.done(again.gateway.startStages())
  await again.runFor(second)
  const third = await again.notification(ids[2]!)
  assert.equal(third.timeline.at(-1)?.detail, 'behind what was due before and left late')
  assert.equal(Math.round((third.dueAt - again.start) / hour), 1)
  release()
  await again.runFor(minute)
  assert.equal((await again.notification(ids[0]!)).status, 'delivered')
})

test('the first who waits has its place before the others are read, however far away its instant was', async (t) => {
  const { again, ids } = await startBehind(t, { waiting: 40, after: limited('2/min') })
  await again.done(again.gateway.startStages())
  await again.runFor(second)
  const first = await again.notification(ids[0]!)
  assert.deepEqual([first.timeline.at(-1)?.detail, first.dueAt], ['moved up', again.start])
})
