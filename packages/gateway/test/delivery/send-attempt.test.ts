import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChannelWorker } from '../../src/delivery/channel-worker.ts'
import { InFlightCounter } from '../../src/delivery/in-flight-counter.ts'
import type { InFlightSend, InFlightSends } from '../../src/delivery/in-flight-sends.ts'
import type { Lease } from '../../src/delivery/pools/lease.ts'
import { createSendAttempts } from '../../src/delivery/send-attempt.ts'
import { advance, type Move, type Notification, type Status } from '../../src/model.ts'
import type { Provider, SendResult } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import type { Attempted } from '../../src/stages.ts'
import { broken, delivered } from './scripted.ts'

const start = 1_000_000

interface Setup {
  readonly send?: Provider['send']
  readonly template?: string
  /** The status that the answer leads to. @defaultValue delivered */
  readonly becomes?: Status
  readonly suspects?: readonly number[]
}

function setUp({ send, template, becomes = 'delivered', suspects }: Setup) {
  const clock = createVirtualClock(start)
  const heard: string[] = []
  const judged: SendResult[] = []
  const inFlight = new InFlightCounter()
  const notification = {
    id: 'n',
    tenant: 'acme',
    to: { id: 'ada' },
    channel: 'email',
    priority: 'high',
    status: 'queued',
    attempts: 0,
    timeline: [{ at: start, status: 'accepted' }],
    ...(template === undefined ? { content: { text: 'hello' } } : { template }),
  } as unknown as Notification
  const lease = {
    account: { id: 'a', options: {} },
    pool: { provider: { name: 'x', idempotent: false, send }, timeoutMs: 1_000 },
    judge: (_: number, result: SendResult) => judged.push(result),
    end: () => heard.push('lease ends'),
  } as unknown as Lease
  const inFlightSend = {
    notification,
    recipient: null,
    lease,
    at: start,
    leave: () => heard.push('leaves'),
    end: () => heard.push('departure ends'),
  } as unknown as InFlightSend
  const worker = {
    route: {},
    automaticRedrive: { note: (priority: string) => heard.push(`note ${priority}`) },
    freed: () => heard.push('freed'),
  } as unknown as ChannelWorker
  const calls = createSendAttempts({
    clock,
    inFlight,
    ledger: { live: () => undefined },
    limiter: {
      left: async ({ notification: { id } }) => {
        heard.push(`counts ${id}`)
      },
      cancel: async (held) => {
        heard.push(`cancel ${held.map(({ notification: { id } }) => id)}`)
      },
    },
    composer: {
      templates: {
        has: () => true,
        hasSubject: () => true,
        render: () => {
          throw new Error('no such filter')
        },
      },
    },
    inFlightSends: { begin: () => inFlightSend } as unknown as InFlightSends,
    retries: { retryOf: () => ({ kind: 'never' }), suited: () => assert.fail(), forget: () => undefined },
    completer: {
      add: (move: Move, done) => {
        heard.push(`settle as ${move.after.status}`)
        done?.()
      },
      write: () => assert.fail(),
    },
    settle: ({ now, result }: Attempted) => {
      heard.push(`answer ${result.outcome} ${'detail' in result ? result.detail : ''}`.trim())
      const path: Status[] = becomes === 'queued' ? ['queued'] : ['sending', becomes]
      return advance(
        notification,
        path.map((status) => ({ at: now, status })),
        suspects === undefined ? {} : { suspects },
      )
    },
    onError: (what, error) => heard.push(`trouble with ${what}: ${(error as Error).message}`),
  })
  calls.begin(worker, { notification, payload: notification, recipient: null, lease, firedAt: start })
  return { clock, heard, judged, inFlight }
}

const ends = ['lease ends', 'freed']

test('an answer ends the in-flight send, is judged by the account, is settled, and then frees the lease', async () => {
  const { clock, heard, judged, inFlight } = setUp({ send: async () => delivered })
  await clock.settle()
  assert.deepEqual(heard, ['departure ends', 'answer delivered', 'settle as delivered', ...ends])
  assert.deepEqual(judged, [delivered])
  assert.equal(clock.next(), undefined, 'no timer is left')
  await inFlight.idle()
})

test('a notification that cannot be rendered fails without a call and without blame for the account', async () => {
  const { heard, judged, inFlight } = setUp({ template: 'broken', becomes: 'failed' })
  assert.deepEqual(heard.slice(1, 3), ['answer rejected no such filter', 'settle as failed'])
  assert.equal(judged[0]?.outcome, 'rejected')
  await inFlight.idle()
})

test('an adapter that throws or rejects counts as failed, and its lease is freed', async () => {
  const thrown = (): never => {
    throw new Error('a defect')
  }
  for (const send of [thrown, async () => thrown()]) {
    const { clock, heard, judged, inFlight } = setUp({ send, becomes: 'queued' })
    await clock.settle()
    assert.deepEqual(heard, [
      'trouble with provider x: a defect',
      'departure ends',
      'answer failed a defect',
      'settle as queued',
      ...ends,
    ])
    assert.equal(judged[0]?.outcome, 'failed')
    assert.equal(clock.next(), undefined)
    await inFlight.idle()
  }
})

test('a call is aborted at its timeout', async () => {
  let signal: AbortSignal | undefined
  const { clock } = setUp({
    send: (_, __, given) => {
      signal = given
      return new Promise(() => undefined)
    },
  })
  await clock.runUntil(start + 999)
  assert.equal(signal?.aborted, false)
  await clock.runUntil(start + 1_000)
  assert.equal(signal?.aborted, true)
})

test('a dead letter is noted for automatic redrive before its lease is freed', async () => {
  const { clock, heard } = setUp({ send: async () => broken, becomes: 'dead' })
  await clock.settle()
  assert.deepEqual(heard.slice(2), ['settle as dead', 'note high', ...ends])
})

test('a call that may have arrived counts under an id of its own; without a retry no other reservation is held', async () => {
  const unknown: SendResult = { outcome: 'unknown', detail: 'reset' }
  const dead = setUp({ send: async () => unknown, becomes: 'dead', suspects: [start] })
  await dead.clock.settle()
  assert.deepEqual(dead.heard.slice(2), ['counts n?0', 'cancel n', 'settle as dead', 'note high', ...ends])
  const repeated = setUp({ send: async () => unknown, becomes: 'queued', suspects: [start, start] })
  await repeated.clock.settle()
  assert.deepEqual(repeated.heard.slice(2), ['counts n?1', 'settle as queued', ...ends])
})
