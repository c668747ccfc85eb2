/** The order and the amount of work by which very many waiting notifications move up. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { MoveUpPause } from '../../src/admission/move-up-pause.ts'
import { createMoveUpTurn } from '../../src/admission/move-up-turn.ts'
import type { Draft } from '../../src/model.ts'
import type { Store } from '../../src/ports.ts'
import { createHarness, type Harness, hour, minute, second } from '../harness.ts'

const limited = (max: string) => ({
  version: 1,
  maxDelay: '60d',
  limits: [{ name: 'all', for: 'any', per: ['tenant'], max: [max], over: 'delay' }],
})

const caller = { tenant: 'default', module: 'default' }
const draftTo = (id: string): Draft => ({
  to: { id, email: 'a@b.c' },
  channel: 'email',
  category: 'product',
  priority: 'normal',
  content: { subject: id, text: id },
})

/** Starts a gateway under a wider policy behind so many notifications that wait for one subject. */
async function startBehind(t: TestContext, waiting: number, wrap: (store: Store) => Store) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-slices-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'sluice.db')
  const before = await createHarness({ file, policy: limited('1/h') })
  const posts = Array.from({ length: waiting + 1 }, (_, index) => ({
    to: { id: `r${index}`, email: 'a@b.c' },
  }))
  const all = await before.postMany(posts)
  await before.stop()
  const start = before.clock.now() + minute
  const again: Harness = await createHarness({ file, policy: limited('2/h'), start, wrap, stages: false })
  t.after(() => again.stop())
  return { again, ids: all.slice(1).map(({ id }) => id) }
}

test('the first who wait have their places on record before the others are read', async (t) => {
  const events: string[] = []
  const { again, ids } = await startBehind(t, 200, (store) => ({
    ...store,
    notification(tenant, id) {
      events.push('read')
      return store.notification(tenant, id)
    },
    async commit(change) {
      const result = await store.commit(change)
      if (change.moves !== undefined && change.moves.length > 0) events.push(change.moves[0]!.before.id)
      return result
    },
  }))
  await again.done(again.gateway.startStages())
  await again.runFor(second)
  const firstAt = events.indexOf(ids[0]!)
  assert.ok(firstAt > 0, 'the first has moved up')
  assert.ok(firstAt <= 20, `${firstAt} steps before the first is on record`)
})

test('waiting notifications are read once each while all of them move up under a wider policy', async (t) => {
  const waiting = 600
  let reads = 0
  const { again, ids } = await startBehind(t, waiting, (store) => ({
    ...store,
    notification(tenant, id) {
      reads += 1
      return store.notification(tenant, id)
    },
  }))
  await again.done(again.gateway.startStages())
  await again.runFor(second)
  const counted = reads
  // One was sent before: its window holds one place of the first hour.
  for (const [index, id] of ids.entries()) {
    const { dueAt } = await again.notification(id)
    assert.equal(Math.round((dueAt - again.start) / hour), Math.floor((index + 1) / 2), `the ${index}th`)
  }
  assert.ok(counted <= waiting + 100, `${counted} reads for ${waiting}`)
})

test('newcomers whose commits are under way make nobody be read again who waited before them', async (t) => {
  const waiting = 600
  let reads = 0
  let isSlow = false
  const { again, ids } = await startBehind(t, waiting, (store) => ({
    ...store,
    notification(tenant, id) {
      reads += 1
      return store.notification(tenant, id)
    },
    async commit(change) {
      const isNew = isSlow && (change.accept?.length ?? 0) > 0
      for (let turn = 0; isNew && turn < 30; turn += 1) await new Promise((next) => setImmediate(next))
      return store.commit(change)
    },
  }))
  isSlow = true
  await again.done(again.gateway.startStages())
  const newcomers: Promise<{ readonly id: string }>[] = []
  for (let count = 0; count < 20; count += 1) {
    newcomers.push(again.post({ to: { id: `new${count}`, email: 'a@b.c' } }))
    await again.clock.settle()
  }
  const came = await Promise.all(newcomers)
  await again.runFor(second)
  const counted = reads
  const last = await again.notification(ids.at(-1)!)
  for (const { id } of came) assert.ok((await again.notification(id)).dueAt >= last.dueAt, 'it stands behind')
  assert.ok(counted <= waiting + 300, `${counted} reads for ${waiting}`)
})

test('a recipient who changes a preference in the middle of a pass overtakes nobody', async (t) => {
  let passes: (() => void) | undefined
  const { again, ids } = await startBehind(t, 300, (store) => ({
    ...store,
    async commit(change) {
      const result = await store.commit(change)
      if (change.moves?.[0]?.before.id === ids[0]) passes?.()
      return result
    },
  }))
  const begun = new Promise<void>((resolve) => {
    passes = resolve
  })
  // The last of those who wait, and a newcomer.
  const change = async (recipient: string): Promise<void> => {
    await again.gateway.gate.saveRecipient({ tenant: 'default', id: recipient, timeZone: 'Europe/Rome' })
  }
  const newcomer = begun.then(() => again.gateway.gate.admit({ caller, drafts: [draftTo('new')] }))
  const changes = newcomer.then(() => Promise.all([change('new'), change('r299')]))
  await again.done(again.gateway.startStages().then(() => changes))
  await again.runFor(second)
  const dueAt = await Promise.all(ids.map(async (id) => (await again.notification(id)).dueAt))
  assert.deepEqual(
    dueAt,
    dueAt.toSorted((one, other) => one - other),
    'the earliest accepted has the earliest place',
  )
  const [result] = await newcomer
  assert.ok(result)
  const { dueAt: newAt } = await again.notification(result.notification.id)
  assert.ok(newAt >= dueAt.at(-1)!, `the newcomer is ${dueAt.at(-1)! - newAt} ms before the last who waited`)
})

const nothing = async (): Promise<void> => {}
const noPause: MoveUpPause = { begin: nothing, endSoon() {}, lookedAt: nothing, end: nothing }

test('a turn evaluates those again who may take a place that became free behind it, and no others', () => {
  const ids = ['a', 'b', 'c', 'd']
  const turn = createMoveUpTurn(noPause, hour)
  assert.deepEqual(turn.next(ids), ids)
  for (const [index, id] of ['a', 'b'].entries()) {
    turn.evaluating(id)
    turn.keeps(index * minute)
  }
  turn.evaluating('c')
  turn.freed(3 * hour)
  assert.equal(turn.isBehind, false, 'no window reaches from three hours to those that it has evaluated')
  turn.freed(hour)
  assert.equal(turn.isBehind, true)
  assert.deepEqual(
    turn.next([...ids, 'e']),
    ['a', 'b', 'c', 'e'],
    'd is still to come when the place is free',
  )
  turn.evaluating('a')
  turn.freed(9 * hour)
  assert.deepEqual(
    turn.next([...ids, 'e']),
    [...ids, 'e'],
    'this pass leaves out d, which may take the place',
  )
  turn.evaluating('c')
  turn.revisit('d')
  turn.revisit('b')
  assert.deepEqual(turn.next([...ids, 'e', 'f']), ['b', 'c', 'd', 'e', 'f'])
  turn.revisit('d')
  assert.deepEqual(turn.next([...ids, 'e', 'f']), [], 'this pass has d before it')
})

test('a place whose instant is not known is offered to all who were evaluated', () => {
  const turn = createMoveUpTurn(noPause, hour)
  turn.next(['a', 'b', 'c'])
  turn.evaluating('b')
  turn.keeps(0)
  turn.freed(undefined)
  assert.ok(turn.isFreed)
  assert.deepEqual(turn.next(['a', 'b', 'c']), ['a', 'b'])
})
