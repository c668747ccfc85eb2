/** What stages behind the routes report is in the metrics too, and a busy event loop shows. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createMetrics } from '../../src/intake/metrics.ts'
import type { Status } from '../../src/model.ts'
import { statuses } from '../../src/model.ts'

const none = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>
const metrics = createMetrics({
  ledger: { counts: () => none, subscribe: () => () => {} },
  queue: { size: (channel) => (channel === 'sms' ? 7 : 0) },
  jobs: { running: () => 3 },
  pools: () => [],
})
after(() => metrics.close())

async function value(name: string): Promise<number> {
  const line = (await metrics.text()).split('\n').find((each) => each.startsWith(`${name} `))
  assert.ok(line !== undefined, `${name} is missing`)
  return Number(line.split(' ')[1])
}

test('commits are timed', async () => {
  for (const tookMs of [0.5, 3, 700]) metrics.onCommit(tookMs)
  assert.equal(await value('sluice_commit_seconds_count'), 3)
  assert.equal(await value('sluice_commit_seconds_bucket{le="0.005"}'), 2)
  assert.equal((await value('sluice_commit_seconds_sum')).toFixed(4), '0.7035')
})

test('batches in the background are counted while they run', async () => {
  assert.equal(await value('sluice_jobs_running'), 3)
})

test('queues are measured by channel', async () => {
  assert.equal(await value('sluice_queue_size{channel="sms"}'), 7)
  assert.equal(await value('sluice_queue_size{channel="email"}'), 0)
})

test('a loop that was held up shows as lag', async () => {
  await new Promise((resolve) => setTimeout(resolve, 50))
  const until = performance.now() + 300
  while (performance.now() < until);
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.ok((await value('nodejs_eventloop_lag_seconds{quantile="1"}')) > 0.2)
})
