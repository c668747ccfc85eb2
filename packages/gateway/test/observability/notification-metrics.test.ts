/** Metrics of notifications agree with what happened to them, in virtual time. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createMetrics } from '../../src/observability/metrics.ts'
import { createHarness, type HarnessOptions, hour, second } from '../harness.ts'

const wide = { version: 1, limits: [] }

async function setUp(t: TestContext, options: HarnessOptions) {
  const harness = await createHarness({ policy: wide, ...options })
  const { gateway, clock } = harness
  const metrics = createMetrics({
    ledger: gateway.ledger,
    jobs: gateway.jobs,
    poolReports: gateway.pools,
    channels: ['email', 'sms'],
    pools: [{ channel: 'email', provider: 'sandbox' }],
    limits: () => [{ name: 'two', over: 'drop' }],
    errorCounts: () => [['store', 0]],
    backlog: () => gateway.backlog.totals(clock.now()),
    now: () => clock.now(),
  })
  t.after(async () => {
    metrics.close()
    await harness.stop()
  })
  return {
    ...harness,
    async value(series: string): Promise<number> {
      const lines = (await metrics.text()).split('\n')
      const line = lines.find((each) => each.startsWith(`${series} `))
      assert.ok(line !== undefined, `${series} is missing`)
      return Number(line.slice(series.length))
    },
  }
}

const sandbox = (account: object) => ({ pools: { email: { provider: 'sandbox', accounts: [account] } } })

test('lateness is the time from the promised instant to the first call', async (t) => {
  const { post, runFor, value, start } = await setUp(t, {
    config: sandbox({ id: 'slow', rate: '1/s' }),
  })
  const at = start + hour
  for (let count = 0; count < 4; count += 1) await post({ sendAt: at })
  await runFor(hour + 10 * second)
  const labels = 'channel="email",priority="normal"'
  assert.equal(await value(`sluice_lateness_seconds_count{${labels}}`), 4)
  // One leaves at once, the others wait one, two and three seconds for the account's rate.
  assert.equal(await value(`sluice_lateness_seconds_bucket{${labels},le="0.5"}`), 1)
  assert.equal(await value(`sluice_lateness_seconds_bucket{${labels},le="2.5"}`), 3)
  const sum = await value(`sluice_lateness_seconds_sum{${labels}}`)
  assert.ok(sum > 6 && sum < 6.5, String(sum))
  assert.equal(await value('sluice_delivery_seconds_count{channel="email"}'), 4)
})

test('a retry counts as a call, and not as another lateness', async (t) => {
  const { post, runFor, value } = await setUp(t, { config: sandbox({ id: 'down', odds: { fail: 1 } }) })
  await post()
  await runFor(10 * second)
  assert.equal(await value('sluice_lateness_seconds_count{channel="email",priority="normal"}'), 1)
  const calls = await value('sluice_provider_calls_total{channel="email",provider="sandbox",outcome="retry"}')
  assert.ok(calls >= 2, String(calls))
  assert.equal(
    await value('sluice_provider_call_seconds_count{channel="email",provider="sandbox"}'),
    calls,
    'each call has a duration',
  )
})

test('the gauge of dead letters follows them to their redrive', async (t) => {
  const { post, runFor, value, gateway, done } = await setUp(t, {
    config: {
      pools: {
        email: { provider: 'sandbox', retry: { attempts: 1 }, accounts: [{ id: 'down', odds: { fail: 1 } }] },
      },
    },
  })
  const letters = 'channel="email",cause="attempts_exhausted"'
  assert.equal(await value(`sluice_dead_letters{${letters}}`), 0)
  const { id } = await post()
  await runFor(second)
  assert.equal(await value(`sluice_dead_letters{${letters}}`), 1)
  assert.equal(await value(`sluice_dead_letters_total{${letters}}`), 1)
  assert.equal(await value(`sluice_dead_letters_returned_total{${letters}}`), 0)
  await done(gateway.gate.redrive({ ids: [id], tenant: 'default' }))
  await runFor(second)
  assert.equal(await value(`sluice_dead_letters_returned_total{${letters}}`), 1)
  assert.equal(await value(`sluice_dead_letters{${letters}}`), 1, 'it died again')
  assert.equal(await value(`sluice_dead_letters_total{${letters}}`), 2)
})

test('decisions are counted by outcome and reason, and refusals by the limit', async (t) => {
  const { post, value } = await setUp(t, {
    policy: {
      version: 1,
      limits: [{ name: 'two', for: 'any', max: ['2/day'], over: 'drop' }],
    },
    config: { tenants: { default: { rate: '2/min', modules: 'unlimited' } } },
  })
  for (let count = 0; count < 3; count += 1) await post({ recipient: 'ada' })
  await post({ recipient: 'bob' })
  assert.equal(await value('sluice_decisions_total{channel="email",outcome="send",reason="none"}'), 2)
  assert.equal(await value('sluice_throttle_delays_total{limit="tenant"}'), 2)
  assert.equal(await value('sluice_limit_refusals_total{limit="two",over="drop"}'), 0)
})

test('a limit that drops is named with what it refused', async (t) => {
  const { post, value } = await setUp(t, {
    policy: { version: 1, limits: [{ name: 'two', for: 'any', max: ['2/day'], over: 'drop' }] },
  })
  for (let count = 0; count < 5; count += 1) await post()
  assert.equal(await value('sluice_limit_refusals_total{limit="two",over="drop"}'), 3)
  assert.equal(await value('sluice_suppressed_total{channel="email",reason="over_limit"}'), 3)
})

test('every series of a served channel is there before anything happens', async (t) => {
  const { value } = await setUp(t, {})
  for (const series of [
    'sluice_accepted_total{channel="sms",priority="critical"}',
    'sluice_suppressed_total{channel="sms",reason="opted_out"}',
    'sluice_dead_letters_total{channel="sms",cause="poison"}',
    'sluice_provider_calls_total{channel="email",provider="sandbox",outcome="rate_limited"}',
    'sluice_lateness_seconds_bucket{channel="sms",priority="high",le="7200"}',
    'sluice_http_request_duration_seconds_count{route="/api/v1/notifications",method="POST",status="5xx"}',
    'sluice_refused_total{code="QUEUE_FULL"}',
    'sluice_errors_total{component="store"}',
  ])
    assert.equal(await value(series), 0, series)
})

test('what waits is counted by reason and by when it is due', async (t) => {
  const { post, value, runFor, start } = await setUp(t, {
    policy: { version: 1, limits: [{ name: 'one', for: 'any', max: ['1/week'], over: 'delay' }] },
  })
  await post({ recipient: 'ada' })
  await runFor(second)
  await post({ recipient: 'ada' })
  await post({ recipient: 'bob', sendAt: start + hour / 2 })
  await post({ recipient: 'eve', sendAt: start + 30 * second })
  assert.equal(await value('sluice_waiting{channel="email",reason="recipient_limit"}'), 1)
  assert.equal(await value('sluice_waiting{channel="email",reason="send_at"}'), 2)
  assert.equal(await value('sluice_waiting{channel="sms",reason="digest"}'), 0)
  assert.equal(await value('sluice_due_within{horizon="1m"}'), 1)
  assert.equal(await value('sluice_due_within{horizon="10m"}'), 1)
  assert.equal(await value('sluice_due_within{horizon="1h"}'), 2)
  assert.equal(await value('sluice_due_within{horizon="1d"}'), 2)
  await runFor(hour)
  assert.equal(await value('sluice_waiting{channel="email",reason="send_at"}'), 0)
  assert.equal(await value('sluice_due_within{horizon="1d"}'), 0)
  assert.equal(await value('sluice_waiting{channel="email",reason="recipient_limit"}'), 1)
})
