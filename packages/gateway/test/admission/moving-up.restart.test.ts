/**
 * A place that becomes free after a restart, when nobody is in memory yet, belongs to those who wait and to no newcomer,
 * and a pass that a stop cut short is finished.
 */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { Notification } from '../../src/model.ts'
import { createHarness, type Harness, hour, minute, second } from '../harness.ts'

const step = hour + 20
const hourly = { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }] }

function databaseIn(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-restart-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'sluice.db')
}

/** Turns of the event loop and awaits by which the answer of a commit comes later than what it wrote. */
const answersLater = Array.from({ length: 24 }, (_, awaits) => ({ turns: awaits % 2, awaits }))

/**
 * Asserts that the first who waits has the place that `act` frees, where a newcomer comes between the commit and its
 * answer, which comes so much later.
 */
async function noneOvertakes(
  t: TestContext,
  prepare: (harness: Harness) => Promise<readonly Notification[]>,
  act: (again: Harness, waiting: readonly Notification[]) => Promise<unknown>,
) {
  const file = databaseIn(t)
  const before = await createHarness({ file, policy: hourly })
  const waiting = await prepare(before)
  await before.stop()
  for (const { turns, awaits } of answersLater) {
    const copy = `${file}.${awaits}`
    copyFileSync(file, copy)
    let newcomer: Promise<Notification> | undefined
    const again = await createHarness({
      file: copy,
      policy: hourly,
      start: before.clock.now() + second,
      wrap: (store) => ({
        ...store,
        async commit(change) {
          const result = await store.commit(change)
          if (change.moves?.some(({ before }) => before.id === waiting[0]!.id) !== true) return result
          newcomer ??= again.post()
          for (let turn = 0; turn < turns; turn += 1) await new Promise((next) => setImmediate(next))
          for (let count = 0; count < awaits; count += 1) await Promise.resolve()
          return result
        },
      }),
    })
    await again.done(act(again, waiting))
    const { id } = await newcomer!
    await again.runFor(second)
    const [, next, last] = await Promise.all(waiting.map((each) => again.notification(each.id)))
    const said = `${turns} turns and ${awaits} awaits later`
    assert.equal(next!.dueAt, waiting[0]!.dueAt, `the first who waits has the place, ${said}`)
    assert.equal(last!.dueAt, waiting[1]!.dueAt, `and the next its own, ${said}`)
    assert.equal((await again.notification(id)).dueAt, waiting[2]!.dueAt, said)
    await again.stop()
  }
}

test('a place that is cancelled after a restart goes to the first who waits, at whatever await a newcomer comes', (t) =>
  noneOvertakes(
    t,
    async (harness) => {
      await harness.post()
      return [await harness.post(), await harness.post(), await harness.post()]
    },
    (again, [first]) => again.gateway.gate.cancel('default', first!.id),
  ))

test('a pass that a stop cuts short is finished by the next start, however far it came', async (t) => {
  for (const turns of [0, 1, 2, 3, 4, 6]) {
    const file = `${databaseIn(t)}.${turns}`
    const before = await createHarness({ file, policy: hourly })
    const all = await before.postMany(
      Array.from({ length: 160 }, (_, index) => ({ content: { subject: `${index}`, text: 'x' } })),
    )
    await before.done(before.gateway.gate.cancel('default', all[1]!.id).then(() => before.gateway.stop()))
    const again = await createHarness({ file, policy: hourly, start: before.clock.now() + minute })
    await again.runFor(second)
    for (const [index, { id }] of all.entries())
      if (index > 1)
        assert.equal(
          (await again.notification(id)).dueAt - before.start,
          (index - 1) * step,
          `the ${index}th, ${turns} turns`,
        )
    await again.stop()
  }
})

test('a preference saved before a kill is applied at the start, although the store fails once meanwhile', async (t) => {
  const file = databaseIn(t)
  const before = await createHarness({ file, policy: hourly })
  const { id } = await before.post({ sendAt: before.start + hour })
  await before.done(
    before.gateway.ledger.commit({
      recipients: [{ tenant: 'default', id: 'ada', optOuts: [{ category: 'product' }] }],
    }),
  )
  const copy = `${file}.killed`
  for (const end of ['', '-wal']) if (existsSync(file + end)) copyFileSync(file + end, copy + end)
  await before.stop()
  let fails = 0
  const again = await createHarness({
    file: copy,
    policy: hourly,
    start: before.clock.now() + second,
    wrap: (store) => ({
      ...store,
      mayHave: store.mayHave,
      async commit(change) {
        if (change.moves?.some((move) => move.before.id === id) === true && ++fails === 1)
          throw new SluiceError('STORE_UNAVAILABLE', 'Full.', { retryAfterMs: second })
        return store.commit(change)
      },
    }),
  })
  await again.runFor(minute)
  assert.equal(fails, 2)
  assert.equal((await again.notification(id)).status, 'suppressed')
  await again.stop()
})
