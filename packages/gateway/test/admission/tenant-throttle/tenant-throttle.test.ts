import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Store } from '../../../src/ports.ts'
import { createHarness, hour, minute, second } from '../../harness.ts'

const policy = { version: 1, limits: [] }
const tenants = (rate: string, modules = 'unlimited') => ({ tenants: { default: { rate, modules } } })

test('cancelling a notification in the throttle queue frees its place, also after a restart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-platform-'))
  const options = { file: join(folder, 'sluice.db'), policy, config: tenants('1/min') }
  const harness = await createHarness(options)
  await harness.post()
  const waiting = await harness.post()
  await harness.done(harness.gateway.gate.cancel('default', waiting.id))
  const next = await harness.post()
  assert.equal(next.dueAt, waiting.dueAt)
  await harness.done(harness.gateway.gate.cancel('default', next.id))
  await harness.stop()
  const restarted = await createHarness({ ...options, start: harness.start + second })
  assert.equal((await restarted.post()).dueAt, waiting.dueAt)
  await restarted.runFor(2 * minute)
  await restarted.check()
  await restarted.stop()
  rmSync(folder, { recursive: true })
})

test('cancelling a notification that passed the tenant limit frees no place: acceptances are counted', async () => {
  const harness = await createHarness({ policy, config: tenants('1/min') })
  const { id } = await harness.post({ sendAt: harness.start + hour })
  await harness.done(harness.gateway.gate.cancel('default', id))
  assert.equal((await harness.post()).decision.reason, 'tenant_limit')
  await harness.stop()
})

test('a notification that expires before its place in the throttle queue expires in time and frees the place', async () => {
  const harness = await createHarness({ policy, config: tenants('1/h') })
  await harness.post()
  const expiresAt = harness.start + minute
  const waiting = await harness.post({ expiresAt })
  assert.equal(waiting.decision.reason, 'tenant_limit')
  assert.equal(waiting.decision.at, harness.start + hour + 20)
  await harness.runUntil(expiresAt)
  const ended = await harness.notification(waiting.id)
  assert.equal(ended.status, 'expired')
  assert.equal((await harness.post()).decision.at, harness.start + hour + 20)
  await harness.check()
  await harness.stop()
})

test('a module over its limit takes nothing from the tenant limit of other modules', async () => {
  const harness = await createHarness({ policy, config: tenants('5/min', '2/min') })
  const from = (module: string) => harness.post({}, { tenant: 'default', module })
  const reasons: (string | undefined)[] = []
  for (let index = 0; index < 5; index += 1) reasons.push((await from('a')).decision.reason)
  for (let index = 0; index < 3; index += 1) reasons.push((await from('b')).decision.reason)
  reasons.push((await from('c')).decision.reason, (await from('c')).decision.reason)
  const late = 'module_limit'
  assert.deepEqual(reasons, [
    undefined,
    undefined,
    late,
    late,
    late,
    undefined,
    undefined,
    late,
    undefined,
    'tenant_limit',
  ])
  await harness.runFor(5 * minute)
  assert.equal(harness.sent().length, 10)
  await harness.check()
  await harness.stop()
})

test('a long throttle queue keeps its length over a restart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-platform-'))
  const options = { file: join(folder, 'sluice.db'), policy, config: tenants('100/min') }
  const harness = await createHarness(options)
  let last = harness.start
  for (let batch = 0; batch < 12; batch += 1) {
    const to = (index: number) => ({ id: `r${batch}-${index}`, email: 'r@example.com' })
    const drafts = Array.from({ length: 500 }, (_, index) => ({ to: to(index) }))
    last = (await harness.postMany(drafts)).at(-1)!.dueAt
  }
  await harness.stop()
  const restarted = await createHarness({ ...options, start: harness.start + 2 * second })
  const next = await restarted.post()
  assert.equal(next.decision.reason, 'tenant_limit')
  assert.ok(next.dueAt > last)
  await restarted.stop()
  rmSync(folder, { recursive: true })
})

test('an opt-out ends a notification in the throttle queue and frees its place', async () => {
  const harness = await createHarness({ policy, config: tenants('1/min') })
  await harness.post({ recipient: 'bob' })
  const waiting = await harness.post()
  await harness.done(
    harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'ada', optOuts: [{ channel: 'email' }] }),
  )
  assert.equal((await harness.notification(waiting.id)).status, 'suppressed')
  assert.equal((await harness.post({ recipient: 'eve' })).dueAt, waiting.dueAt)
  await harness.runFor(2 * minute)
  await harness.check()
  await harness.stop()
})

test('all acceptances within the window of a tenant count after a restart, also beyond one page of the record', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-platform-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const pageMax = 7
  const options = {
    file: join(folder, 'sluice.db'),
    policy,
    config: tenants('20/min'),
    wrap: (store: Store): Store => ({
      ...store,
      admissions: (query) => store.admissions({ ...query, limit: Math.min(query.limit, pageMax) }),
      counted: (query) => store.counted({ ...query, limit: Math.min(query.limit, pageMax) }),
    }),
  }
  const harness = await createHarness(options)
  for (let index = 0; index < 20; index += 1) {
    const { id, decision } = await harness.post({ recipient: `r${index}`, sendAt: harness.start + hour })
    assert.equal(decision.reason === 'tenant_limit', false)
    // A cancelled one counts as well: acceptances are counted.
    if (index % 3 === 0) await harness.done(harness.gateway.gate.cancel('default', id))
  }
  await harness.stop()
  const again = await createHarness({ ...options, start: harness.start + second })
  assert.equal((await again.post()).decision.reason, 'tenant_limit')
  await again.stop()
})
