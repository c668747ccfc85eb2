/** The conformance suite of the delivery log's port: `exerciseDeliveryLog` runs it against any log that `open` gives. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { DeliveryLog, LoggedEvents, LogRecord } from '../ports/delivery-log.ts'

export interface OpenedLog {
  readonly log: DeliveryLog
  /** How long it keeps an entry, ms. */
  readonly keepMs: number
  /** Its clock, epoch ms. */
  readonly now: () => number
}

let made = 0
/** Accepted and queued, of a recipient and a notification that no other test has. */
function someEvents(now: number, patch: Partial<LoggedEvents> = {}): LoggedEvents {
  made += 1
  return {
    tenant: 'acme',
    recipient: `r-${made}`,
    notificationId: `n-${now}-${made}`,
    channel: 'email',
    seq: 0,
    events: [
      { at: now - 5, status: 'accepted' },
      { at: now - 5, status: 'queued' },
    ],
    ...patch,
  }
}

/** Registers the suite `name` with node:test. */
export function exerciseDeliveryLog(name: string, open: () => Promise<OpenedLog>): void {
  const test = (title: string, body: (opened: OpenedLog) => Promise<void>) =>
    it(title, async () => body(await open()))

  describe(name, () => {
    test('finds every change of a notification by its id, with all its fields, in order', async (opened) => {
      const { log, now } = opened
      const at = now()
      const accepted = someEvents(at)
      const sent: LoggedEvents = {
        ...accepted,
        seq: 2,
        events: [
          { at: at - 3, status: 'sending', provider: 'smtp', account: 'main', attempt: 1 },
          { at: at - 2, status: 'scheduled', reason: 'retry', detail: '451 “später” – 👋\n' },
        ],
      }
      await log.write([sent], now())
      await log.write([accepted], now())
      const { tenant, recipient, notificationId, channel } = accepted
      assert.deepEqual(await log.notification(notificationId), {
        notificationId,
        tenant,
        recipient,
        entries: [...accepted.events, ...sent.events].map((event, seq) => ({ seq, channel, ...event })),
      })
      assert.equal(await log.notification('unknown'), undefined)
    })

    test('has two changes of one millisecond twice, and what is written again once', async ({ log, now }) => {
      const record = someEvents(now())
      await Promise.all([log.write([record], now()), log.write([record, record], now())])
      await log.write([record], now())
      assert.equal((await log.notification(record.notificationId))?.entries.length, 2)
    })

    test('takes thousands of changes of many and of one recipient at once', async ({ log, now }) => {
      const at = now()
      const many = Array.from({ length: 500 }, () => someEvents(at))
      const one = Array.from({ length: 300 }, () => someEvents(at, { recipient: 'busy' }))
      await log.write([...many, ...one], now())
      for (const { notificationId, recipient } of [many[0]!, many.at(-1)!, one[0]!, one.at(-1)!]) {
        const found = await log.notification(notificationId)
        assert.equal(found?.recipient, recipient)
        assert.equal(found?.entries.length, 2)
      }
    })

    test('finds the changes of several months together', async ({ log, now, keepMs }) => {
      const at = now()
      const events = [
        { at: at - keepMs / 2, status: 'accepted' },
        { at, status: 'queued' },
      ] as const
      const record = someEvents(at, { events })
      await log.write([record], now())
      assert.deepEqual(
        (await log.notification(record.notificationId))?.entries.map((entry) => entry.at),
        events.map((event) => event.at),
      )
    })

    test('takes no change that is older than it keeps any', async ({ log, now, keepMs }) => {
      const record = someEvents(now(), { events: [{ at: now() - keepMs - 1_000, status: 'accepted' }] })
      await log.write([record], now())
      assert.equal(await log.notification(record.notificationId), undefined)
    })

    test('forgets an erased recipient, and nobody else and nothing behind the erasure', async (opened) => {
      const { log, now, keepMs } = opened
      const at = now()
      const before = someEvents(at)
      const { tenant, recipient } = before
      const long = someEvents(at, { recipient, events: [{ at: at - keepMs / 2, status: 'accepted' }] })
      const elsewhere = someEvents(at, { tenant: 'other', recipient })
      const other = someEvents(at)
      const back = someEvents(at, { recipient })
      const erasure: LogRecord = { tenant, recipient, erasedAt: at }
      await log.write([long, before, elsewhere], now())
      await log.write([other, erasure, back], now())
      const kept = async (record: LoggedEvents) =>
        (await log.notification(record.notificationId))?.entries.length ?? 0
      assert.deepEqual(await Promise.all([before, long].map(kept)), [0, 0])
      assert.deepEqual(await Promise.all([elsewhere, other, back].map(kept)), [2, 2, 2])
    })

    test('takes back nothing by what a process writes late that stood still, of what it had read before', async (opened) => {
      const { log, now } = opened
      const at = now()
      const before = someEvents(at)
      const { tenant, recipient } = before
      const back = someEvents(at, { recipient })
      const erasure: LogRecord = { tenant, recipient, erasedAt: at }
      const [first, second, third] = [at - 3_000, at - 2_000, at - 1_000]
      await log.write([before], first)
      await log.write([erasure], second)
      await log.write([back], third)
      await log.write([before], first)
      assert.equal((await log.notification(before.notificationId))?.entries.length ?? 0, 0)
      await log.write([before, erasure], first)
      assert.equal((await log.notification(before.notificationId))?.entries.length ?? 0, 0)
      assert.equal((await log.notification(back.notificationId))?.entries.length, 2)
    })
  })
}
