import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someMessage } from '../../../src/conformance/provider.ts'
import type { SendResult } from '../../../src/ports.ts'
import { createSandbox, type SandboxOptions } from '../../../src/providers/sandbox/adapter.ts'
import type { Mishap } from '../../../src/sandbox/behaviour.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

const seed = Number(process.env.SLUICE_SEED ?? 20_261_121)
const start = Date.UTC(2026, 10, 21, 12)

function placed(options: Omit<SandboxOptions, 'clock'> = {}) {
  const clock = createVirtualClock(start)
  const sandbox = createSandbox({ clock, seed, ...options })
  const send = (account = 'a1', patch = {}, signal = new AbortController().signal): Promise<SendResult> =>
    sandbox.send(someMessage('push', patch), { id: account, options: {} }, signal)
  /** Sends at this time since the start, ms. */
  const sendAt = async (atMs: number, account = 'a1'): Promise<SendResult> => {
    await clock.runUntil(start + atMs)
    return send(account)
  }
  return { clock, sandbox, send, sendAt }
}

const isSettled = async (promise: Promise<unknown>): Promise<boolean> => {
  const pending = Symbol()
  return (await Promise.race([promise, Promise.resolve(pending)])) !== pending
}

test('the sandbox delivers everything at once, and records it', async () => {
  const { sandbox, send } = placed()
  assert.deepEqual(await send('a1', { id: '01A', to: { id: 'ada' } }), { outcome: 'delivered' })
  await send('a2', { id: '01B', to: { id: 'bob' } })
  assert.deepEqual(
    sandbox.received({ recipient: 'ada' }).map(({ message }) => message.id),
    ['01A'],
  )
  assert.deepEqual(
    sandbox.received({ account: 'a2' }).map(({ message }) => message.id),
    ['01B'],
  )
  assert.deepEqual(
    sandbox.received().map(({ at }) => at),
    [start, start],
  )
  assert.equal(sandbox.counters().arrived, 2)
  assert.equal(sandbox.counters('a1').arrived, 1)
})

test('the sandbox keeps the last calls only, and counts all of them', async () => {
  const { sandbox, send } = placed({ keep: 3 })
  for (const id of ['1', '2', '3', '4', '5']) await send('a1', { id })
  assert.deepEqual(
    sandbox.calls().map(({ message }) => message.id),
    ['3', '4', '5'],
  )
  assert.equal(sandbox.counters().calls, 5)
  sandbox.clear()
  assert.deepEqual([sandbox.calls().length, sandbox.counters().calls], [0, 0])
})

test('the sandbox’s rate is a rolling window: never more calls than the limit in any window', async () => {
  const { sandbox, sendAt } = placed({ behaviour: { rates: [{ max: 3, windowMs: 1_000 }], retryAfter: '' } })
  const outcomes: string[] = []
  for (const at of [0, 100, 900, 950, 999, 1_000, 1_050, 1_100, 1_899, 1_900])
    outcomes.push((await sendAt(at)).outcome)
  const [yes, no] = ['delivered', 'rate_limited']
  assert.deepEqual(outcomes, [yes, yes, yes, no, no, yes, no, yes, no, yes])
  const at = sandbox.received().map((call) => call.at)
  for (let index = 3; index < at.length; index += 1) assert.ok(at[index]! - at[index - 3]! >= 1_000)
})

test('two windows apply together, separately for each account', async () => {
  const rates = [
    { max: 2, windowMs: 100 },
    { max: 3, windowMs: 10_000 },
  ]
  const { sendAt } = placed({ behaviour: { rates, retryAfter: '' } })
  const outcomes: string[] = []
  for (const at of [0, 1, 2, 100, 300]) outcomes.push((await sendAt(at)).outcome)
  assert.deepEqual(outcomes, ['delivered', 'delivered', 'rate_limited', 'delivered', 'rate_limited'])
  assert.equal((await sendAt(301, 'a2')).outcome, 'delivered')
})

test('Retry-After names the whole seconds until a place frees, and holds the account to it', async () => {
  const { sandbox, sendAt } = placed({ behaviour: { rates: [{ max: 1, windowMs: 2_500 }] } })
  await sendAt(0)
  const refused = await sendAt(100)
  assert.ok(refused.outcome === 'rate_limited')
  assert.equal(refused.retryAfter, '3')
  // The window would let it pass now; the promise does not.
  assert.equal((await sendAt(2_600)).outcome, 'rate_limited')
  assert.equal(sandbox.counters('a1').whileBlocked, 1)
  assert.equal((await sendAt(9_000)).outcome, 'delivered')
})

test('Retry-After can be any text', async () => {
  for (const retryAfter of ['soon', 'Sat, 21 Nov 2026 12:00:05 GMT', '-1', '999999']) {
    const { sendAt } = placed({ behaviour: { rates: [{ max: 0, windowMs: 1_000 }], retryAfter } })
    const refused = await sendAt(0)
    assert.equal(refused.outcome === 'rate_limited' && refused.retryAfter, retryAfter)
  }
})

test('the sandbox’s latency passes on the gateway’s clock', async () => {
  const { clock, send } = placed({ behaviour: { latency: 250 } })
  const sending = send()
  await clock.runUntil(start + 249)
  assert.equal(await isSettled(sending), false)
  await clock.runUntil(start + 250)
  assert.deepEqual(await sending, { outcome: 'delivered' })
})

test(`the sandbox’s latency has the configured median and 99th percentile (SLUICE_SEED=${seed})`, async () => {
  const { clock, send } = placed({ behaviour: { latency: { p50Ms: 40, p99Ms: 400 } } })
  const tookMs: number[] = []
  await Promise.all(
    Array.from({ length: 4_000 }, async () => {
      const sending = send().then(() => tookMs.push(clock.now() - start))
      await clock.runUntil(start + 60_000)
      await sending
    }),
  )
  tookMs.sort((a, b) => a - b)
  assert.ok(Math.abs(tookMs[2_000]! / 40 - 1) < 0.1, `median ${tookMs[2_000]}`)
  assert.ok(Math.abs(tookMs[3_960]! / 400 - 1) < 0.25, `p99 ${tookMs[3_960]}`)
})

test('the sandbox slows down silently above a rate', async () => {
  const { clock, send } = placed({
    behaviour: { latency: 10, slowDown: { above: { max: 2, windowMs: 1_000 }, factor: 20 } },
  })
  const sending = [send(), send(), send()]
  await clock.runUntil(start + 10)
  assert.deepEqual(await Promise.all(sending.map(isSettled)), [true, true, false])
  await clock.runUntil(start + 200)
  assert.deepEqual(await sending[2], { outcome: 'delivered' })
})

test(`mishaps occur with their configured probability, and the same seed gives the same ones (SLUICE_SEED=${seed})`, async () => {
  const odds = { fail: 0.1, reject: 0.05, reset_after_accept: 0.05 } as const
  const run = async (with_: number) => {
    const { sandbox, send } = placed({ behaviour: { odds }, seed: with_, keep: 10_000 })
    for (let index = 0; index < 10_000; index += 1) await send()
    return {
      fates: sandbox.counters().fates,
      order: sandbox
        .calls()
        .map(({ fate }) => fate)
        .join(),
    }
  }
  const first = await run(seed)
  for (const [mishap, odd] of Object.entries(odds)) {
    const share = first.fates[mishap as Mishap] / 10_000
    assert.ok(Math.abs(share - odd) < 0.015, `${mishap}: ${share}`)
  }
  assert.equal((await run(seed)).order, first.order)
  assert.notEqual((await run(seed + 1)).order, first.order)
})

test('a message whose answer was lost has arrived all the same', async () => {
  for (const fate of ['reset_after_accept', 'hang_after_accept'] as const) {
    const { sandbox, send } = placed({ script: () => fate })
    const deadline = new AbortController()
    const sending = send('a1', { id: '01A' }, deadline.signal)
    deadline.abort()
    assert.notEqual((await sending).outcome, 'delivered')
    assert.equal(sandbox.received({ id: '01A' }).length, 1)
  }
})

test('a hang lasts until the caller aborts', async () => {
  const { clock, sandbox, send } = placed({ script: () => 'hang' })
  const deadline = new AbortController()
  const sending = send('a1', {}, deadline.signal)
  await clock.runUntil(start + 3_600_000)
  assert.equal(await isSettled(sending), false)
  deadline.abort()
  assert.equal((await sending).outcome, 'failed')
  assert.equal(sandbox.received().length, 0)
})

test('a script decides about single calls and leaves the others alone', async () => {
  const { send } = placed({
    script: ({ number, account }) => (account === 'a1' && number === 2 ? 'fail' : undefined),
  })
  const outcomes = [await send(), await send(), await send(), await send('a2'), await send('a2')].map(
    ({ outcome }) => outcome,
  )
  assert.deepEqual(outcomes, ['delivered', 'failed', 'delivered', 'delivered', 'delivered'])
})

test('a phase replaces the behaviour for its time and its accounts, and forgets no window', async () => {
  const rate = { max: 2, windowMs: 10_000 }
  const { sendAt } = placed({
    behaviour: { rates: [rate], retryAfter: '' },
    phases: [{ fromMs: 1_000, toMs: 2_000, accounts: ['a1'], behaviour: { odds: { fail: 1 } } }],
  })
  assert.equal((await sendAt(999)).outcome, 'delivered')
  assert.equal((await sendAt(1_000)).outcome, 'failed')
  assert.equal((await sendAt(1_500, 'a2')).outcome, 'delivered')
  // Both calls count, the one that failed too: it reached the provider.
  assert.equal((await sendAt(2_000)).outcome, 'rate_limited')
})

test('a behaviour can be changed while it runs, of one account or of all the others', async () => {
  const { sandbox, send } = placed({ accounts: { own: {} } })
  await send('own')
  await send('a1')
  sandbox.behave({ odds: { fail: 1 } })
  assert.deepEqual(
    [(await send('own')).outcome, (await send('a1')).outcome, (await send('new')).outcome],
    ['delivered', 'failed', 'failed'],
  )
  sandbox.behave({}, 'a1')
  assert.deepEqual([(await send('a1')).outcome, (await send('new')).outcome], ['delivered', 'failed'])
})

const nonsense: readonly (readonly [string, object])[] = [
  ['behaviour.latency', { latency: -1 }],
  ['behaviour.latency', { latency: { p50Ms: 100, p99Ms: 50 } }],
  ['behaviour.rates', { rates: [{ max: 1.5, windowMs: 1_000 }] }],
  ['behaviour.rates', { rates: [{ max: 1, windowMs: 0 }] }],
  ['behaviour.odds', { odds: { fail: 0.7, reject: 0.7 } }],
  ['behaviour.odds', { odds: { fail: Number.NaN } }],
  ['behaviour.slowDown.factor', { slowDown: { above: { max: 1, windowMs: 1 }, factor: 0 } }],
]
for (const [field, behaviour] of nonsense) {
  test(`${JSON.stringify(behaviour)} is refused by the name of ${field}`, () => {
    assert.throws(() => placed({ behaviour }), {
      name: 'TypeError',
      message: new RegExp(`^${field.replaceAll('.', '\\.')} `),
    })
  })
}
