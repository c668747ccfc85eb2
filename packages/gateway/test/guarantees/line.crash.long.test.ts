/**
 * The line before a tenant's limits through kills: 120 notifications of three modules wait behind 20 in two seconds,
 * and the process is killed again and again while they pass. What the record says of their turns is what counts.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { stillClock } from '../../src/conformance/store/sample.ts'
import type { Notification } from '../../src/model.ts'
import { countedAt } from '../../src/store/admission.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { createSite, type Site } from '../child.ts'
import { seeded, testSeed } from '../harness.ts'
import { overfull } from './windows.ts'

const windowMs = 2_000
const [tenantMax, moduleMax, each, kills] = [20, 10, 40, 4]
const modules = ['a', 'b', 'c']

async function delivered(site: Site): Promise<number> {
  const { text } = await site.call('GET', '/metrics')
  return Number(/^sluice_notifications\{status="delivered"\} (\d+)$/m.exec(text)?.[1] ?? 0)
}

test(`of ${modules.length * each} in a line none is lost, no window is over and the order holds, through ${kills} kills`, async (t) => {
  const config = { tenants: { default: { rate: `${tenantMax}/2s`, modules: `${moduleMax}/2s` } } }
  const site = await createSite(t, { policy: { version: 1, limits: [] }, config })
  const chance = seeded(testSeed)
  await site.start()
  const told: string[] = []
  for (const module of modules) {
    const recipients = Array.from({ length: each }, (_, index) => ({
      id: `${module}-${index}`,
      email: 'r@example.com',
    }))
    const body = { recipients, channel: 'email', content: { subject: 's', text: 't' } }
    const answer = await site.call('POST', '/api/v1/notifications/batch', body, { 'x-module-id': module })
    assert.equal(answer.status, 202, answer.text)
    told.push(
      ...answer
        .json<{ results: { notificationId: string }[] }>()
        .results.map(({ notificationId }) => notificationId),
    )
  }
  const backMs: number[] = []
  for (let kill = 0; kill < kills; kill += 1) {
    await sleep(300 + chance() * 1_500)
    await site.kill()
    backMs.push(await site.start())
  }
  const end = performance.now() + 40_000
  while ((await delivered(site)) < told.length && performance.now() < end) await sleep(200)
  await site.terminate()

  const store = createSqliteStore({
    path: join(site.folder, 'data/sluice.db'),
    clock: stillClock(Date.now()),
  })
  const found = await Promise.all(told.map((id) => store.notification('default', id)))
  await store.close()
  const turns = found.map((notification) => ({ ...notification!, at: countedAt(notification!) }))
  assert.ok(
    turns.every(({ status, at }) => status === 'delivered' && at !== undefined),
    'all came to their turn',
  )
  const instants = (of: readonly { readonly at: number | undefined }[]) => of.map(({ at }) => at!)
  assert.equal(overfull(instants(turns), { max: tenantMax, windowMs }), 0)
  for (const module of modules) {
    const own = turns.filter((one: Notification) => one.module === module)
    assert.equal(overfull(instants(own), { max: moduleMax, windowMs }), 0)
    assert.deepEqual(
      instants(own),
      instants(own).toSorted((a, b) => a - b),
      `module ${module} keeps its order`,
    )
  }
  t.diagnostic(`back after ${backMs.map((ms) => ms.toFixed(0)).join(', ')} ms`)
})
