/** A page of notifications is read, decoded and written in slices: nobody waits for the whole of it. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { FastifyReply } from 'fastify'
import { createSystemClock } from '../../src/adapters/clock.ts'
import { epoch, someNotification } from '../../src/conformance/store/sample.ts'
import { notificationAnswer } from '../../src/http/answer.ts'
import { loopbackIdentity } from '../../src/http/identity.ts'
import { pageAnswer } from '../../src/http/page.ts'
import type { Notification } from '../../src/model.ts'
import { longRowOf, type Row, shortRowOf } from '../../src/store/sqlite/codec/rows.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { pack, unpack } from '../../src/store/sqlite/worker/packed-rows.ts'

const rows = 500
/** Notifications decoded or written in one turn of the event loop at most. */
const atOnce = 10

/** The turn of the event loop, and the most of something that was counted in one of them. */
function countPerTurn(t: TestContext) {
  let inTurn = 0
  let most = 0
  let next: NodeJS.Immediate
  const turn = (): void => {
    inTurn = 0
    next = setImmediate(turn)
  }
  next = setImmediate(turn)
  t.after(() => clearImmediate(next))
  return {
    count() {
      inTurn += 1
      most = Math.max(most, inTurn)
    },
    most: () => most,
  }
}

const feedback = { of: async () => [] }

test('a full page is written in slices, and says what it said as a whole', async (t) => {
  const items = Array.from({ length: rows }, () => someNotification())
  const turns = countPerTurn(t)
  const caller = await loopbackIdentity({ headers: {} } as never)
  const live = (): undefined => {
    turns.count()
    return undefined
  }
  const headers: string[] = []
  const reply = { header: (name: string, value: string) => headers.push(`${name}: ${value}`) }
  const body = await pageAnswer(
    reply as unknown as FastifyReply,
    { items, nextCursor: 'next' },
    { caller, ledger: { live }, clock: createSystemClock(), feedback },
  )
  const whole = { items: items.map((each) => notificationAnswer(each, caller)), nextCursor: 'next' }
  assert.equal(body.toString(), JSON.stringify(whole))
  assert.deepEqual(headers, ['content-type: application/json; charset=utf-8'])
  assert.ok(turns.most() > 0 && turns.most() <= atOnce, `${turns.most()} in one turn`)
})

/** A notification whose timeline has the most events, with long answers of the provider: some 20 KiB. */
const long = () => {
  const event = { at: epoch, status: 'queued', reason: 'retry', detail: 'x'.repeat(250) } as const
  return someNotification({ timeline: [event, ...Array.from({ length: 63 }, () => event)] })
}

test('notifications with long timelines are written one in a turn', async (t) => {
  const turns = countPerTurn(t)
  const live = (): undefined => {
    turns.count()
    return undefined
  }
  const caller = await loopbackIdentity({ headers: {} } as never)
  const reply = { header: () => {} } as unknown as FastifyReply
  const items = Array.from({ length: 50 }, long)
  const viewer = { caller, ledger: { live }, clock: createSystemClock(), feedback }
  const body = await pageAnswer(reply, { items, nextCursor: null }, viewer)
  assert.equal((JSON.parse(body.toString()) as { items: unknown[] }).items.length, 50)
  assert.equal(turns.most(), 1)
})

test('rows with long timelines travel one in a slice, and others ten', () => {
  const rowOf = (notification: Notification): Row => [
    1,
    ...longRowOf(notification),
    ...shortRowOf(notification),
  ]
  const slicesOf = (rows: readonly Row[]) =>
    pack({ rows, nextCursor: null }).slices.map((slice) => unpack(slice).length)
  assert.deepEqual(slicesOf([long(), long(), long()].map(rowOf)), [1, 1, 1])
  assert.deepEqual(slicesOf(Array.from({ length: 25 }, () => rowOf(someNotification()))), [10, 10, 5])
  assert.deepEqual(slicesOf([]), [])
})

test('an empty page, and one of which memory knows better, are complete JSON', async () => {
  const caller = await loopbackIdentity({ headers: {} } as never)
  const reply = { header: () => {} } as unknown as FastifyReply
  const viewer = { caller, ledger: { live: () => undefined }, clock: createSystemClock(), feedback }
  const answer = async (items: readonly ReturnType<typeof someNotification>[], asked?: 'delivered') =>
    JSON.parse(
      (await pageAnswer(reply, { items, nextCursor: null }, viewer, asked && new Set([asked]))).toString(),
    ) as { items: unknown[]; nextCursor: unknown }
  assert.deepEqual(await answer([]), { items: [], nextCursor: null })
  assert.deepEqual(await answer([someNotification(), someNotification()], 'delivered'), {
    items: [],
    nextCursor: null,
  })
  assert.equal((await answer([someNotification(), someNotification()])).items.length, 2)
})

test('a full page of the store is decoded in slices', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-page-'))
  const store = createSqliteStore({ path: join(folder, 'sluice.db'), clock: createSystemClock() })
  t.after(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const accept = Array.from({ length: rows }, () => someNotification())
  await store.commit({ accept })
  // The first question starts the thread.
  await store.list({ tenant: 'acme', limit: 1 })
  const { parse } = JSON
  const turns = countPerTurn(t)
  t.after(() => Object.assign(JSON, { parse }))
  Object.assign(JSON, {
    parse(text: string, ...more: []) {
      turns.count()
      return parse(text, ...more)
    },
  })
  const { items } = await store.list({ tenant: 'acme', limit: rows })
  assert.deepEqual(new Set(items.map(({ id }) => id)), new Set(accept.map(({ id }) => id)))
  // Request, decision and timeline of each.
  assert.ok(turns.most() > 0 && turns.most() <= 3 * atOnce, `${turns.most()} texts in one turn`)
})
