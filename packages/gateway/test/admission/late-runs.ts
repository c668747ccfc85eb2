/**
 * Runs a gateway in which something becomes late, against an oracle that shares no code with the limiter: for half an hour
 * nothing leaves, in one of several ways, and then all that wait get, in the order of their promises, the earliest instant
 * at which each fits into every window beside those before it, found by trying. None may leave later than that, none may
 * overtake one that was accepted and promised before it, and no window may be over.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { channels, type Notification } from '../../src/model.ts'
import type { Provider } from '../../src/ports.ts'
import {
  createHarness,
  type Harness,
  type HarnessOptions,
  hour,
  minute,
  second,
  seeded,
  testSeed,
} from '../harness.ts'
import { assertNoneOver, drawLimits, earliestBeside, lateMsMax, policyOf, type Sent } from './slot-oracle.ts'

const pool = { provider: 'sandbox', accounts: [{ id: 'a' }], shedAfter: '1d', adaptive: false }
const config = { pools: { email: pool } }

/** Newcomers that come while nothing leaves are fewer than this. */
const newcomersMax = Number(process.env.SLUICE_NEWCOMERS ?? 6)
const sentOf = ({ to, category, firedAt }: Notification): Sent => ({
  recipient: to.id,
  category,
  at: firedAt!,
})
const offline: Provider = {
  name: 'websocket',
  idempotent: true,
  channels: ['websocket'],
  send: () => Promise.reject(new Error()),
  close: () => Promise.resolve(),
}
/** Saves the quiet hours of a recipient. */
async function saveQuiet(harness: Harness, id: string, hours: { from: string; to: string }): Promise<void> {
  await harness.done(
    harness.gateway.gate.saveRecipient({
      tenant: 'default',
      id,
      timeZone: 'UTC',
      quietHours: { default: hours },
    } as never),
  )
}

/**
 * The ways in which nothing leaves for half an hour: the provider names an instant, an operator holds the account, or the
 * recipients, the provider takes one call in two minutes, the recipients want quiet.
 */
const ways = ['blocked', 'account', 'category', 'slow', 'quiet'] as const

/**
 * Runs random gateways and asserts that each leaves what is late at the oracle's instants.
 * @param more - further options of the harness, of each run by its number
 */
export async function runLate(
  runs: number,
  more: (number: number) => HarnessOptions = () => ({}),
): Promise<void> {
  let [waitedCount, shifted, latestMs] = [0, 0, 0]
  for (let number = 0; number < runs; number += 1) {
    const way = ways[number % ways.length]!
    const draw = seeded(testSeed * 1_000 + number)
    const below = (count: number): number => Math.floor(draw() * count)
    const limits = drawLimits(below)
    const hasQuietHours = way !== 'quiet' && below(3) === 0
    let [closedAt, openAt] = [Number.POSITIVE_INFINITY, 0]
    let lastCallAt = 0
    const harness = await createHarness({
      ...more(number),
      policy: policyOf(limits, hasQuietHours),
      config,
      seed: number,
      providers: (clock) => [
        offline,
        {
          name: 'sandbox',
          idempotent: true,
          channels,
          async send() {
            const now = clock.now()
            const isClosed = now >= closedAt && now < openAt
            const freeAt = way === 'slow' ? Math.min(openAt, lastCallAt + 2 * minute) : openAt
            if (isClosed && (way === 'blocked' || way === 'slow') && now < freeAt)
              return {
                outcome: 'rate_limited',
                retryAfter: String(Math.ceil((freeAt - now) / 1000)),
                detail: 'closed',
              }
            lastCallAt = now
            return { outcome: 'delivered' }
          },
          close: () => Promise.resolve(),
        },
      ],
    })
    async function close(): Promise<void> {
      closedAt = harness.clock.now()
      openAt = closedAt + 30 * minute
      const hold = { name: 'h', channel: 'email', until: openAt, reason: 'r' } as const
      if (way === 'account') await harness.done(harness.gateway.holds.put({ ...hold, account: 'a' }))
      if (way === 'category') await harness.done(harness.gateway.holds.put(hold))
      if (way !== 'quiet') return
      const [from, to] = [closedAt, openAt].map((at) => new Date(at).toISOString().slice(11, 16))
      for (const id of ['u0', 'u1']) await saveQuiet(harness, id, { from: from!, to: to! })
    }
    const draftOf = (now: number) => ({
      recipient: `u${below(2)}`,
      channel: 'email' as const,
      category: below(3) === 0 ? 'rare' : 'product',
      ...(below(4) === 0 ? { sendAt: now + below(60) * minute } : {}),
    })
    const ids: string[] = []
    const promised = new Map<string, number>()
    const post = async (): Promise<void> => {
      const posted = await harness.post(draftOf(harness.clock.now()))
      ids.push(posted.id)
      promised.set(posted.id, posted.dueAt)
    }
    for (let count = 12 + below(20); count > 0; count -= 1) {
      await post()
      if (below(3) === 0) await harness.runFor(below(5 * minute))
    }
    await harness.runUntil(Math.ceil((harness.clock.now() + second) / minute) * minute)
    await close()
    for (const id of ids) promised.set(id, (await harness.notification(id)).dueAt)
    for (let count = below(newcomersMax); count > 0; count -= 1) {
      await harness.runFor(below(10 * minute))
      await post()
    }
    await harness.runFor(30 * hour)
    const rows = await Promise.all(ids.map((id) => harness.notification(id)))
    for (const { id, status } of rows) assert.equal(status, 'delivered', id)
    const isSent = ({ firedAt }: Notification): boolean => firedAt! < (way === 'slow' ? openAt : closedAt)
    const sent: Sent[] = rows.filter(isSent).map(sentOf)
    const waiting = rows
      .filter((row) => !isSent(row))
      .sort((a, b) => promised.get(a.id)! - promised.get(b.id)! || (a.id < b.id ? -1 : 1))
    waitedCount += waiting.length
    // A provider names whole seconds.
    const first = Math.min(...waiting.map(({ firedAt }) => firedAt!))
    if (first < openAt + second) openAt = Math.max(openAt, first)
    for (const row of waiting) {
      const from = Math.max(openAt, row.createdAt, promised.get(row.id)!)
      const at = earliestBeside(limits, sent, sentOf(row), from, hasQuietHours)
      if (at > from) shifted += 1
      sent.push({ ...sentOf(row), at })
      const lateMs = row.firedAt! - at
      // The slow provider takes its calls one by one: they are held to their order alone.
      if (way === 'slow') continue
      latestMs = Math.max(latestMs, lateMs)
      assert.ok(
        lateMs <= lateMsMax,
        `run ${number}, ${way}: ${row.id} left ${lateMs / 1000} s later than ${(at - openAt) / 1000} s after the end`,
      )
    }
    for (const [index, row] of waiting.entries())
      for (const other of waiting.slice(index + 1)) {
        const isBehind = row.to.id === other.to.id && row.category === other.category && row.id < other.id
        assert.ok(
          !isBehind || row.firedAt! <= other.firedAt!,
          `run ${number}, ${way}: ${other.id} overtook ${row.id}`,
        )
      }
    const all = rows.map(sentOf)
    assertNoneOver(limits, all, `run ${number}, ${way}`)
    await harness.check()
    await harness.stop()
  }
  console.log(
    `${waitedCount} waited when it opened, ${shifted} could not leave at their instant; the latest left ${latestMs} ms after the oracle's`,
  )
  assert.ok(waitedCount > 0 && shifted > 0)
}
