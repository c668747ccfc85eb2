/** The commands of a fleet: `sluice check` tells of both engines, and `sluice serve` ends where others took over. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { createSite } from '../child.ts'
import { start } from '../cli/process.ts'
import { ask, dropSchemas, schemaUrl } from '../store/postgres/database.ts'

describe('commands over PostgreSQL and Redis', needs('postgres', 'redis'), () => {
  after(dropSchemas)
  const state = `${process.env.SLUICE_TEST_REDIS}?prefix=serve:${randomBytes(4).toString('hex')}:&deadline=1s`

  test('serve ends with 1 and says why when the others have declared it dead', async (t) => {
    const store = schemaUrl('dead')
    const site = await createSite(t, { config: { store }, env: { SLUICE_STATE: state } })
    await site.start()
    await ask(store, 'UPDATE member SET state = 3')
    for (const until = performance.now() + 20_000; site.pid !== undefined; await sleep(50))
      if (performance.now() > until) throw new Error('it goes on')
    assert.match(site.log(), /"event":"gateway\.declared_dead"/)
    assert.match(site.log(), /^sluice: the other gateways found this one silent for too long/m)
    assert.equal((await site.terminate()).code, 1)
  })

  test('check connects to both, and says what it found; serve refuses what it refuses', async (t) => {
    const site = await createSite(t, { config: { store: schemaUrl('check') } })
    const file = join(site.folder, 'state')
    writeFileSync(file, `${state}\n`)
    const check = async (env: Readonly<Record<string, string>>) => {
      const args = ['check', '--config', join(site.folder, 'sluice.yaml')]
      const { exit, output } = start(t, args, { cwd: site.folder, env })
      return { ...(await exit), ...output }
    }
    const good = await check({ SLUICE_STATE_FILE: file })
    assert.equal(good.code, 0, good.err)
    assert.match(good.out, /^# Store: PostgreSQL \d+/m)
    assert.match(good.out, /^# State: Redis \d.*: master; evicts nothing; append-only file; its clock is/m)
    const away = await check({ SLUICE_STATE: 'redis://127.0.0.1:1' })
    assert.equal(away.code, 2)
    assert.match(
      away.err,
      /state: redis:\/\/127\.0\.0\.1:1 cannot be reached \(ECONNREFUSED\); see that Redis runs there/,
    )
    const beside = await check({ SLUICE_STORE: 'sqlite::memory:', SLUICE_STATE: state })
    assert.equal(beside.code, 0, beside.err)
    assert.match(beside.out, /^# State: Redis \d/m)
  })
})
