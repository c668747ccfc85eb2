/** Stages behind the routes report to the metrics too, and a busy event loop shows. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Status } from '../../src/model.ts'
import { statuses } from '../../src/model.ts'
import { createMetrics } from '../../src/observability/metrics.ts'
import type { Happening } from '../../src/stages.ts'

const none = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>
const metrics = createMetrics({
  ledger: { counts: () => none, pruned: () => 0, subscribe: () => () => {} },
  queue: { size: (channel) => (channel === 'sms' ? 7 : 0), oldestDue: () => undefined },
  jobs: { running: () => 3 },
  poolReports: () => [],
})
after(() => metrics.close())

async function value(name: string): Promise<number> {
  const line = (await metrics.text()).split('\n').find((each) => each.startsWith(`${name} `))
  assert.ok(line !== undefined, `${name} is missing`)
  return Number(line.split(' ')[1])
}

test('commits are timed finer than a millisecond', async () => {
  for (let count = 0; count < 3; count += 1) metrics.timeCommit(1)()
  assert.equal(await value('sluice_commit_seconds_count'), 3)
  const sum = await value('sluice_commit_seconds_sum')
  assert.ok(sum > 0 && sum < 0.1, String(sum))
  assert.match(await metrics.text(), /sluice_commit_seconds_bucket\{le="0\.0005"\}/)
})

test('the counter of acceptances begins at 0 after a restart, with each of its series', async () => {
  const counts = { ...none, delivered: 5 }
  let pruned = 0
  let heard: (happening: Happening) => void = () => {}
  const own = createMetrics({
    ledger: {
      counts: () => counts,
      pruned: () => pruned,
      subscribe: (listener) => {
        heard = listener
        return () => {}
      },
    },
    jobs: { running: () => 0 },
    poolReports: () => [],
  })
  const lines = async () => (await own.text()).split('\n')
  assert.ok((await lines()).includes('sluice_accepted_total{channel="email",priority="critical"} 0'))
  assert.ok((await lines()).includes('sluice_notifications_unaccounted 0'))
  counts.queued += 1
  const notification = {
    channel: 'sms',
    priority: 'high',
    decision: { outcome: 'send', policyVersion: '', rules: [] },
  } as unknown as Happening['notification']
  heard({ notification, events: [{ at: 1, status: 'accepted' }] })
  assert.ok((await lines()).includes('sluice_accepted_total{channel="sms",priority="high"} 1'))
  // Retention deletes two: that is no loss.
  counts.delivered -= 2
  pruned = 2
  assert.ok((await lines()).includes('sluice_notifications_unaccounted 0'))
  counts.queued -= 1
  assert.ok((await lines()).includes('sluice_notifications_unaccounted 1'))
  own.close()
})

test('background batches are counted while they run', async () => {
  assert.equal(await value('sluice_jobs_running'), 3)
})

test('queues are measured by channel', async () => {
  assert.equal(await value('sluice_queue_size{channel="sms"}'), 7)
  assert.equal(await value('sluice_queue_size{channel="email"}'), 0)
})

test('a blocked event loop shows as delay', async () => {
  await new Promise((resolve) => setTimeout(resolve, 50))
  const until = performance.now() + 300
  while (performance.now() < until);
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.ok((await value('nodejs_eventloop_delay_seconds_sum')) > 0.2)
})
