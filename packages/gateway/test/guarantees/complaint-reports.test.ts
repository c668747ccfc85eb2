/** Operators hear of a category that complaints stop: log, alerts, overview and metrics say the same. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createComplaintAlerts } from '../../src/composition/complaint-alerts.ts'
import { createOverview } from '../../src/http/overview.ts'
import { measureComplaints } from '../../src/observability/complaint-metrics.ts'
import { createMeter } from '../../src/observability/meter.ts'
import { createComplaintLog } from '../../src/observability/operator-log.ts'
import { createTenantMetrics } from '../../src/observability/tenant-metrics.ts'
import type { Alert } from '../../src/ports.ts'
import { hour, minute } from '../harness.ts'
import { complain, gatewayBehind, marketing, small } from './complaints.ts'

test('a pause is logged, alerted, shown and measured when it begins and when it ends', async (t) => {
  const harness = await gatewayBehind(100, small)
  t.after(harness.stop)
  const { gateway, clock } = harness
  const { ledger, backlog, pools, complaints } = gateway
  const lines: unknown[] = []
  const note = ({ event, tenant, category }: Readonly<Record<string, unknown>>) =>
    void lines.push([event, tenant, category])
  complaints.listen(createComplaintLog({ log: { warn: note, info: note }, aheadMs: () => 0 }))
  const alerts: Alert[] = []
  const sent = { send: (alert: Alert) => void alerts.push(alert), close: async () => {} }
  complaints.listen(createComplaintAlerts(sent, { clock, random: { id: () => 'id' } as never }))
  const overview = createOverview({
    ...{ ledger, backlog, pools, clock },
    orphans: { count: () => 0 },
    complaints: complaints.report,
  })
  t.after(() => overview.close())
  const meter = createMeter()
  measureComplaints(meter, { categories: () => ['marketing', 'news'], report: complaints.report })
  const tenants = createTenantMetrics({
    top: 5,
    occupancy: ledger.occupancy,
    complaints: complaints.report,
  })
  t.after(ledger.subscribe(tenants.count))
  const told = async () => (await meter.text()).split('\n').filter((line) => line.startsWith('sluice_'))
  const problems = () => overview.problems(overview.waiting(undefined)).map(({ code }) => code)

  assert.deepEqual(await told(), [
    'sluice_complaint_rate_bound_ratio{category="marketing"} 0',
    'sluice_complaint_rate_bound_ratio{category="news"} 0',
    'sluice_complaint_throttle_ratio{category="marketing"} 1',
    'sluice_complaint_throttle_ratio{category="news"} 1',
  ])
  assert.deepEqual([overview.complaints(undefined), problems()], [[], []])
  const before = clock.now()
  await complain(harness, 40)
  await harness.post(marketing)
  const [paused] = overview.complaints('default')
  assert.deepEqual([paused?.stage, paused?.complained, paused?.share], ['paused', 40, 0])
  assert.deepEqual(overview.complaints('acme'), [])
  assert.deepEqual(problems(), ['CATEGORY_PAUSED'])
  assert.deepEqual(await told(), [
    `sluice_complaint_rate_bound_ratio{category="marketing"} ${paused!.bound}`,
    'sluice_complaint_rate_bound_ratio{category="news"} 0',
    'sluice_complaint_throttle_ratio{category="marketing"} 0',
    'sluice_complaint_throttle_ratio{category="news"} 1',
  ])
  const own = '{tenant="default",category="marketing"}'
  const text = await tenants.text()
  assert.ok(text.includes(`sluice_tenant_complaint_rate_bound_ratio${own} ${paused!.bound}\n`), text)
  assert.ok(text.includes(`sluice_tenant_complaint_throttle_ratio${own} 0\n`), text)
  const [alert] = alerts
  assert.deepEqual([alert?.type, alert?.at, alert?.until], ['complaints.paused', before, paused!.until])

  await harness.runUntil(paused!.until! + hour)
  assert.deepEqual(
    alerts.map(({ type }) => type),
    ['complaints.paused', 'complaints.resumed'],
  )
  const of = ['default', 'marketing']
  assert.deepEqual(lines.at(0), ['complaints.slowed', ...of])
  assert.deepEqual(lines.at(1), ['complaints.paused', ...of])
  assert.deepEqual(lines.at(2), ['complaints.resumed', ...of])
  assert.deepEqual([overview.complaints(undefined), problems()], [[], []])
  await harness.runFor(minute)
})
