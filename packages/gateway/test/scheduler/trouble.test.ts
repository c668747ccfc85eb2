import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Store } from '../../src/ports.ts'
import { createHarness, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'

/** A store of which one method rejects while the test says so. */
function troubled(method: 'admissions' | 'recipient' | 'commit') {
  const trouble = { on: false }
  const wrap = (store: Store): Store => {
    const own = store[method].bind(store) as (...args: unknown[]) => Promise<never>
    return overriding(store, {
      async [method](...args: unknown[]) {
        if (trouble.on) throw new Error('the disk is away')
        return own(...args)
      },
    })
  }
  return { trouble, wrap }
}

for (const method of ['admissions', 'recipient', 'commit'] as const) {
  test(`notifications due while the store fails ${method} leave when it recovers`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-trouble-'))
    const { trouble, wrap } = troubled(method)
    const harness = await createHarness({
      file: join(folder, 'sluice.db'),
      wrap,
      policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['5/min'], over: 'delay' }] },
      config: { tenants: { default: { rate: '1/min', modules: 'unlimited' } } },
    })
    await harness.post()
    const delayed = await harness.post({ recipient: 'zoe' })
    const expiring = await harness.post({ recipient: 'max', expiresAt: harness.start + minute })
    await harness.runFor(50 * second)
    trouble.on = true
    await harness.runFor(20 * second)
    trouble.on = false
    await harness.runFor(minute)
    assert.equal((await harness.notification(delayed.id)).status, 'delivered')
    assert.equal((await harness.notification(expiring.id)).status, 'expired')
    await harness.check()
    await harness.stop()
    rmSync(folder, { recursive: true })
  })
}
