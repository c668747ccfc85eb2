import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Notification, Priority } from '../../src/model.ts'
import { createEmbeddedQueue } from '../../src/queue/embedded.ts'

const now = 0
const clock = { now: () => now }

let serial = 0
function notification(tenant: string, priority: Priority = 'normal'): Notification {
  serial += 1
  return {
    id: `${tenant}-${String(serial).padStart(6, '0')}`,
    tenant,
    module: 'default',
    to: { id: 'ada' },
    channel: 'email',
    category: 'product',
    priority,
    createdAt: 0,
    fingerprint: '',
    status: 'queued',
    dueAt: 0,
    decision: { outcome: 'send', policyVersion: '', rules: [] },
    attempts: 0,
    timeline: [],
  }
}
const many = (count: number, tenant: string) => Array.from({ length: count }, () => notification(tenant))
const tenantsOf = (items: readonly Notification[]) => items.map((item) => item.tenant)

test('tenants take turns by round robin, however many notifications one of them has waiting', () => {
  const queue = createEmbeddedQueue({ clock })
  queue.push(many(1_000, 'loud'))
  queue.push([...many(2, 'quiet'), ...many(2, 'calm')])
  assert.deepEqual(tenantsOf(queue.pull('email', 7)), [
    'loud',
    'quiet',
    'calm',
    'loud',
    'quiet',
    'calm',
    'loud',
  ])
  assert.equal(queue.size('email'), 997)
})

test('a tenant gets turns in proportion to its weight', () => {
  const queue = createEmbeddedQueue({ clock, weightOf: (tenant) => (tenant === 'gold' ? 3 : 1) })
  queue.push([...many(100, 'gold'), ...many(100, 'plain')])
  const taken = tenantsOf(queue.pull('email', 40))
  assert.equal(taken.filter((tenant) => tenant === 'gold').length, 30)
})

test('a tenant with a weight below one still gets its share', () => {
  const queue = createEmbeddedQueue({ clock, weightOf: (tenant) => (tenant === 'small' ? 0.25 : 1) })
  queue.push([...many(100, 'small'), ...many(100, 'plain')])
  const taken = tenantsOf(queue.pull('email', 50))
  assert.equal(taken.filter((tenant) => tenant === 'small').length, 10)
})

test('a tenant’s queue is ordered by priority, then age; critical notifications precede all tenants', () => {
  const queue = createEmbeddedQueue({ clock })
  const [low, normal, high, critical] = (['low', 'normal', 'high', 'critical'] as const).map((p) =>
    notification('b', p),
  )
  queue.push([...many(1, 'a'), low!, normal!, high!, critical!])
  const taken = queue.pull('email', 5).map((item) => item.priority)
  assert.deepEqual(taken, ['critical', 'normal', 'high', 'normal', 'low'])
})

test('notifications given back return to the front in their order', () => {
  const queue = createEmbeddedQueue({ clock })
  const items = many(5, 'a')
  queue.push(items)
  const taken = queue.pull('email', 3)
  queue.giveBack(taken)
  assert.deepEqual(queue.pull('email', 5), items)
})

test('each channel has its own queue and wakes its subscribers', () => {
  const queue = createEmbeddedQueue({ clock })
  let woken = 0
  queue.subscribe('sms', () => (woken += 1))
  queue.push(many(1, 'a'))
  assert.equal(woken, 0)
  queue.push([{ ...notification('a'), channel: 'sms' }])
  assert.equal(woken, 1)
  assert.equal(queue.pull('sms', 9).length, 1)
  assert.equal(queue.size(), 1)
})
