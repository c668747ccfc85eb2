import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someNotification } from '../src/conformance/store/sample.ts'
import { advance, isLegalPath, revisionOf, type Status, transitions } from '../src/model.ts'
import { createSandbox } from '../src/providers/sandbox/adapter.ts'
import { timelineMax } from '../src/timeline.ts'
import { createHarness, seeded, testSeed } from './harness.ts'

const start = Date.UTC(2026, 10, 21, 12)

function assertLegal(timeline: readonly { readonly status: Status }[]): void {
  const [first, ...rest] = timeline.map(({ status }) => status)
  assert.equal(first, 'accepted')
  assert.ok(isLegalPath('accepted', rest), rest.join(' → '))
}

test('a short timeline is kept whole, up to the bound', () => {
  let notification = someNotification()
  while (notification.timeline.length < timelineMax)
    notification = advance(notification, [{ at: start, status: 'queued' }]).after
  assert.equal(notification.omitted, undefined)
  const { timeline } = notification
  const next = advance(notification, [{ at: start + 1, status: 'sending' }]).after
  assert.equal(next.omitted, 1)
  assert.deepEqual(next.timeline.slice(0, 16), timeline.slice(0, 16))
  assert.equal(next.timeline[16]!.detail, '1 events before this one are left out')
  assert.deepEqual(next.timeline.slice(17), [...timeline.slice(18), { at: start + 1, status: 'sending' }])
})

test('whatever a notification goes through, its timeline is bounded and a legal path', (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  for (let run = 0; run < 200; run += 1) {
    let notification = someNotification()
    let events = notification.timeline.length
    for (let step = 0; step < 300; step += 1) {
      const open = transitions[notification.status].filter((next) => transitions[next].length > 0)
      const status = open[Math.floor(chance() * open.length)]!
      notification = advance(notification, [{ at: start + step, status }]).after
      events += 1
      assert.ok(notification.timeline.length <= timelineMax)
      assert.equal(revisionOf(notification), events, 'each move is a version of its own')
      assert.equal(notification.timeline.at(-1)!.at, start + step)
    }
    assertLegal(notification.timeline)
  }
})

test('10,000 answers of 429 leave a timeline of 64 events that says what happened', async () => {
  const repeats = 10_000
  let calls = 0
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    start,
    config: {
      pools: {
        email: { provider: 'sandbox', accounts: [{ id: 'a', rate: 'unlimited' }], shedding: false },
        websocket: { provider: 'sandbox' },
      },
    },
    providers: (clock) => [
      createSandbox({
        clock,
        behaviour: { retryAfter: '1' },
        script: () => {
          calls += 1
          return calls <= repeats ? 'rate_limit' : undefined
        },
      }),
    ],
  })
  const { id } = await harness.post()
  await harness.runFor(repeats * 1_100)
  const { timeline, omitted, status, attempts } = await harness.notification(id)
  assert.deepEqual({ calls, status, attempts }, { calls: repeats + 1, status: 'delivered', attempts: 1 })
  assert.equal(timeline.length, timelineMax)
  assert.equal(
    omitted! + timeline.length,
    2 * repeats + 4,
    'accepted, queued, sending and back, sending, delivered',
  )
  assertLegal(timeline)
  assert.match(timeline[16]!.detail!, new RegExp(`^(.*; )?${omitted} events before this one are left out$`))
  assert.equal(timeline[3]!.reason, 'provider_capacity')
  assert.ok(timeline[15]!.at < start + 10_000 && timeline[16]!.at > start + (repeats - 40) * 1_000)
  assert.ok(JSON.stringify(timeline).length < 10_000)
  await harness.check()
  await harness.stop()
})
