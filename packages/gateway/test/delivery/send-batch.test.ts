import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChannelWorker } from '../../src/delivery/channel-worker.ts'
import { Endpoints } from '../../src/delivery/endpoints.ts'
import type { Lease } from '../../src/delivery/pools/lease.ts'
import type { Fired } from '../../src/delivery/send-attempt.ts'
import { createSendBatches } from '../../src/delivery/send-batch.ts'
import { SluiceError } from '../../src/errors.ts'
import { advance, type Move, type Notification, type Recipient } from '../../src/model.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const start = 1_000_000
const second = 1_000

const queued = (id: string, more: Partial<Notification> = {}): Notification =>
  ({
    id,
    tenant: 'acme',
    to: { id: `to-${id}` },
    status: 'queued',
    attempts: 0,
    timeline: [{ at: start, status: 'accepted' }],
    ...more,
  }) as Notification

interface Setup {
  /** Instants before which the limits delay notifications, by id. @defaultValue none is delayed */
  readonly limits?: Readonly<Record<string, number>>
  readonly stale?: readonly string[]
  /** Notifications that become stale during `fire`. */
  readonly cancelled?: readonly string[]
  readonly optedOut?: string
  readonly away?: string
  /** Number of first look-ups of recipients that fail. */
  readonly failures?: number
  /** Notifications for which `fire` fails, with all others of the same call. */
  readonly broken?: readonly string[]
  /** Releasing a slot fails. */
  readonly keeps?: boolean
}

function setUp({
  limits = {},
  stale = [],
  cancelled = [],
  optedOut,
  away,
  failures = 0,
  broken = [],
  keeps = false,
}: Setup = {}) {
  const clock = createVirtualClock(start)
  const heard: string[] = []
  let failing = failures
  let asked = false
  const names = (notifications: readonly { readonly notification: Pick<Notification, 'id'> }[]) =>
    notifications.map(({ notification }) => notification.id).join(' ')
  const worker = {
    route: {},
    endpoints: new Endpoints({ wake: () => undefined }),
    pump: () => heard.push('pump'),
    freed: () => heard.push('freed'),
  } as unknown as ChannelWorker
  const { release } = createSendBatches({
    clock,
    contents: { of: (notification) => notification },
    queue: {
      giveBack: (notifications) => heard.push(`give back ${notifications.map(({ id }) => id).join(' ')}`),
    },
    ledger: {
      isCurrent: ({ id }) => !stale.includes(id) && !(asked && cancelled.includes(id)),
      live: () => undefined,
      mark: ({ id }) => !cancelled.includes(id),
    },
    limiter: {
      async fire(ready) {
        heard.push(`fire ${names(ready)}`)
        asked = true
        if (ready.some(({ notification: { id } }) => broken.includes(id)))
          throw new TypeError('no such limit')
        return ready.map(({ notification: { id } }) => ({
          fired: limits[id] === undefined,
          at: limits[id] ?? start,
        }))
      },
      cancel: async (notifications) => {
        heard.push(`cancel ${names(notifications)}`)
        if (keeps) throw new Error('the disk is away')
      },
    },
    recipients: {
      cached: () => undefined,
      async find(_, id) {
        failing -= 1
        if (failing >= 0) throw new SluiceError('STORE_UNAVAILABLE', 'the disk is away')
        return { tenant: 'acme', id } as Recipient
      },
    },
    scheduler: { postpone: ({ id }, at) => heard.push(`postpone ${id} to ${at - start}`) },
    attempts: {
      begin: (_, { notification, lease }: Fired) => heard.push(`call ${notification.id} ${lease.account.id}`),
    },
    inFlightSends: { begin: () => assert.fail(), recount: async () => undefined },
    retries: {
      retryOf: () => assert.fail(),
      suited: (_, { attempts }, lease) =>
        attempts === 0 ? lease : leaseOf(`other than ${lease.account.id}`),
      forget: (id) => heard.push(`forget ${id}`),
    },
    completer: {
      add({ after }: Move, done) {
        const { reason } = after.timeline.at(-1)!
        const due = after.status === 'scheduled' ? ` at ${after.dueAt - start}` : ''
        heard.push(`${after.status} ${after.id}${reason === undefined ? '' : ` ${reason}`}${due}`)
        done?.()
      },
      write: () => assert.fail(),
    },
    onError: (what, error) => heard.push(`${what}: ${(error as Error).message}`),
    mayReceive: ({ id }) => id !== optedOut,
    quietAt: ({ id }) => (id.startsWith('night') ? 'quiet_hours' : undefined),
    away: (notification, _, now) =>
      notification.id === away ? advance(notification, [{ at: now, status: 'expired' }]) : undefined,
  })
  const leaseOf = (id: string) =>
    ({
      account: { id },
      pool: { provider: {} },
      undo: () => heard.push(`undo ${id}`),
    }) as unknown as Lease
  const leases = ['a', 'b', 'c'].map(leaseOf)
  return {
    clock,
    heard,
    run: (...notifications: Notification[]) =>
      release(worker, notifications, leases.slice(0, notifications.length)),
  }
}

test('notifications that the limits let go are called with a lease each after a single fire', async () => {
  const { heard, run } = setUp()
  await run(queued('x'), queued('y', { attempts: 1 }))
  assert.deepEqual(heard, ['fire x y', 'call x a', 'call y other than b'])
})

test('a stale notification is neither fired nor called, and its lease goes to the next', async () => {
  const { heard, run } = setUp({ stale: ['x'] })
  await run(queued('x'), queued('y'))
  assert.deepEqual(heard, ['forget x', 'fire y', 'call y a', 'undo b', 'freed'])
})

test('a notification cancelled during fire releases its slot', async () => {
  const { heard, run } = setUp({ cancelled: ['x'] })
  await run(queued('x'))
  assert.deepEqual(heard, ['fire x', 'cancel x', 'undo a', 'freed'])
  const held = setUp({ cancelled: ['x'], limits: { x: start + 5 * second } })
  await held.run(queued('x'))
  assert.deepEqual(held.heard, ['fire x', 'cancel x', 'undo a', 'freed'], 'also what they held')
})

test('a failed release is reported and does not end the process', async () => {
  const { heard, run } = setUp({ cancelled: ['x'], keeps: true })
  await run(queued('x'))
  await new Promise(setImmediate)
  assert.deepEqual(heard, ['fire x', 'cancel x', 'undo a', 'freed', 'give an instant back: the disk is away'])
})

test('expired, opted-out and offline notifications are not fired, and the worker is freed', async () => {
  const { heard, run } = setUp({ optedOut: 'out', away: 'away' })
  await run(queued('over', { expiresAt: start }), queued('out'), queued('away'))
  assert.deepEqual(heard, [
    'cancel away',
    'expired over',
    'freed',
    'suppressed out opted_out',
    'freed',
    'expired away',
    'freed',
    'undo a',
    'undo b',
    'undo c',
    'freed',
  ])
})

test('a notification that the limits delay waits in memory up to a second, else on record, and never beyond its expiry', async () => {
  const { heard, run } = setUp({
    limits: { soon: start + second, end: start + second, later: start + second + 1 },
  })
  await run(queued('soon'), queued('end', { expiresAt: start + 300 }), queued('later'))
  assert.deepEqual(heard.slice(1, 4), [
    'postpone soon to 1000',
    'postpone end to 300',
    'scheduled later recipient_limit at 1001',
  ])
  const night = setUp({ limits: { night: start + 9 * second, 'night over': start + 9 * second } })
  await night.run(queued('night'), queued('night over', { expiresAt: start + 5 * second }))
  assert.deepEqual(night.heard.slice(1, 3), [
    'scheduled night quiet_hours at 9000',
    'scheduled night over quiet_hours at 5000',
  ])
})

test('an unavailable store loses no lease: all notifications return to the queue and are retried soon', async () => {
  const { clock, heard, run } = setUp({ failures: 1, stale: ['gone'] })
  await assert.rejects(run(queued('gone'), queued('x')), /the disk is away/)
  assert.deepEqual(heard, ['forget gone', 'undo a', 'undo b', 'give back x'])
  await clock.runUntil(start + 200)
  assert.equal(heard.at(-1), 'pump')
})

test('a notification on which fire fails is quarantined, and the others of its batch are called at once', async () => {
  const { heard, run } = setUp({ broken: ['y'] })
  await run(queued('x'), queued('y'), queued('z'))
  assert.deepEqual(
    heard.filter((each) => /^(call|postpone|undo|give back|hand over)/.test(each)),
    ['call x a', 'undo b', 'hand over y: no such limit', 'postpone y to 200', 'call z c'],
  )
})

test('a quarantined notification is retried with backoff and ends as a dead letter with the error', async () => {
  const { heard, run } = setUp({ broken: ['x'] })
  for (let time = 0; time < 8; time += 1) await run(queued('x'))
  await new Promise(setImmediate)
  const waits = heard.filter((each) => each.startsWith('postpone'))
  assert.deepEqual(
    waits,
    [200, 400, 800, 1_600, 3_200, 6_400, 12_800].map((ms) => `postpone x to ${ms}`),
  )
  assert.deepEqual(heard.slice(-2), ['dead x poison', 'cancel x'])
})

test('a notification that fails after fire delays no other', async () => {
  const { heard, run } = setUp({ limits: { x: start + 9 * second } })
  // Nothing can be added to a timeline that is not there.
  await run(queued('x', { timeline: undefined as never }), queued('y'))
  assert.equal(heard[0], 'fire x y')
  assert.match(heard[1]!, /^hand over x: /)
  assert.deepEqual(heard.slice(2), ['freed', 'postpone x to 200', 'call y a', 'undo b', 'freed'])
})
