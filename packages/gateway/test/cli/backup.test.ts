/** `sluice backup` beside a gateway that accepts, and `sluice restore`: nothing that was accepted before is missing. */
import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway.ts'
import { temporaryFolder } from '../config/folder.ts'
import { start } from './process.ts'
import { sluice } from './session.ts'

const yaml = `
http: { port: 0 }
log: { level: silent }
tenants: { default: { rate: unlimited, modules: unlimited, reads: unlimited, writes: unlimited } }
`
const to = (id: string) => ({ id, email: `${id}@example.com` })
const finalStates = ['delivered', 'suppressed', 'failed', 'expired', 'cancelled', 'merged']

interface Answer {
  readonly notificationId: string
  readonly status: string
}

interface Started {
  readonly ask: (method: string, path: string, body?: unknown) => Promise<{ status: number; body: never }>
  readonly metrics: () => Promise<string>
  readonly stop: () => Promise<void>
}

async function startIn(cwd: string): Promise<Started> {
  const gateway = await createGateway(loadConfig({ cwd, env: {} }))
  const { url } = await gateway.start()
  return {
    stop: () => gateway.stop(),
    metrics: async () => (await fetch(`${url}/metrics`)).text(),
    async ask(method, path, body) {
      const response = await fetch(`${url}/api/v1${path}`, {
        method,
        ...(body === undefined
          ? {}
          : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      })
      const text = await response.text()
      return { status: response.status, body: (text === '' ? undefined : JSON.parse(text)) as never }
    },
  }
}

describe('a backup that is taken while notifications are accepted', () => {
  const cleanups: (() => void)[] = []
  const cleanup = { after: (run: () => void) => void cleanups.push(run) } as unknown as TestContext
  let folder = ''
  let backup = ''
  const accepted: string[] = []
  let acceptedBefore = 0
  let acceptedMeanwhile = 0
  const content = { subject: 'Hello', text: 'Hello' }

  after(() => {
    for (const run of cleanups) run()
  })
  before(async () => {
    folder = temporaryFolder(cleanup, { 'sluice.yaml': yaml })
    backup = join(folder, 'copies', 'sluice.db')
    const { ask, stop } = await startIn(folder)
    await ask('PUT', '/recipients/gone', { email: 'gone@example.com', optOuts: [{ category: 'news' }] })
    assert.equal((await ask('DELETE', '/recipients/gone')).status, 204)
    let next = 0
    async function accept(): Promise<void> {
      const recipients = Array.from({ length: 50 }, () => to(`person-${next++}`))
      const sendAt = next % 200 === 0 ? { sendAt: new Date(Date.now() + 3_600_000).toISOString() } : {}
      const { status, body } = await ask('POST', '/notifications/batch', {
        recipients,
        channel: 'email',
        content,
        ...sendAt,
      })
      assert.equal(status, 202)
      for (const { notificationId } of (body as { results: Answer[] }).results) accepted.push(notificationId)
    }
    while (next < 1_000) await accept()
    acceptedBefore = accepted.length
    const copier = start(cleanup, ['backup', backup, '--json'], { cwd: folder })
    let isCopied = false
    const exit = copier.exit.finally(() => {
      isCopied = true
    })
    while (!isCopied) await accept()
    assert.equal((await exit).code, 0, copier.output.err)
    acceptedMeanwhile = accepted.length - acceptedBefore
    const report = JSON.parse(copier.output.out) as { counts: { notification: number }; keys: string[] }
    assert.ok(report.counts.notification >= acceptedBefore)
    assert.deepEqual(report.keys, ['erasure'])
    await accept()
    const { code, err } = await sluice(['backup', 'calm.db'], { cwd: folder })
    assert.equal(code, 0, err)
    await stop()
  })

  test('has what was accepted before, and each reaches one final state after it is restored', async (t) => {
    assert.ok(acceptedMeanwhile > 0, 'nothing was accepted while the copy was taken')
    const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
    const { code, out, err } = await sluice(['restore', backup, '--json'], { cwd })
    assert.equal(code, 0, err)
    const { notifications, takenAt } = JSON.parse(out) as { notifications: number; takenAt: string }
    assert.ok(notifications >= acceptedBefore && notifications <= accepted.length)
    assert.ok(Math.abs(Date.now() - Date.parse(takenAt)) < 600_000)
    for (const name of ['sluice.db', 'erasure.key'])
      assert.equal(statSync(join(cwd, 'data', name)).mode & 0o077, 0, name)
    assert.equal(existsSync(join(cwd, 'data', 'sluice.db.part')), false)

    const { ask, metrics, stop } = await startIn(cwd)
    t.after(stop)
    const status = async (id: string) => {
      const { status, body } = await ask('GET', `/notifications/${id}`)
      assert.equal(status, 200, `${id} is missing`)
      return (body as Answer).status
    }
    for (const id of accepted.slice(0, acceptedBefore))
      for (let tries = 0; ; tries += 1) {
        const is = await status(id)
        if (finalStates.includes(is) || is === 'scheduled') break
        assert.ok(tries < 3_000, `${id} stays ${is}`)
        await sleep(20)
      }
    assert.match(await metrics(), /^sluice_notifications_unaccounted 0$/m)
    // The opt-outs of an erased recipient are found again by the key alone.
    const news = { recipient: to('gone'), channel: 'email', category: 'news', content }
    assert.equal(((await ask('POST', '/notifications', news)).body as Answer).status, 'suppressed')
  })

  test('has everything where nothing is accepted meanwhile, also what stands in the log beside the file', async (t) => {
    const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
    const { code, out, err } = await sluice(['restore', join(folder, 'calm.db'), '--json'], { cwd })
    assert.equal(code, 0, err)
    assert.equal((JSON.parse(out) as { notifications: number }).notifications, accepted.length)
  })

  test('is restored with a hold, until an operator ends it', async (t) => {
    const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
    const { code, out, err } = await sluice(['restore', backup, '--hold-until', '2h'], { cwd })
    assert.equal(code, 0, err)
    assert.match(out, /Nothing leaves until .+ "sluice hold restored --end" ends that\.$/m)
    const { ask, stop } = await startIn(cwd)
    t.after(stop)
    const posted = await ask('POST', '/notifications', { recipient: to('new'), channel: 'email', content })
    const { notificationId } = posted.body as Answer
    const read = async () => (await ask('GET', `/notifications/${notificationId}`)).body as Answer
    const held = (await ask('GET', '/holds')).body as { items: { name: string }[] }
    assert.deepEqual(
      held.items.map(({ name }) => name),
      ['restored'],
    )
    assert.notEqual((await read()).status, 'delivered')
    assert.equal((await ask('DELETE', '/holds/restored')).status, 204)
    for (let tries = 0; (await read()).status !== 'delivered'; tries += 1) {
      assert.ok(tries < 3_000, 'it did not leave')
      await sleep(20)
    }
  })

  test('is refused where a store or its keys are, and leaves the folder as it was', async (t) => {
    for (const name of ['sluice.db', 'sluice.db-wal', 'sluice.db-mark', 'erasure.key']) {
      const cwd = temporaryFolder(t, { 'sluice.yaml': yaml, [join('data', name)]: 'anything' })
      const { code, err } = await sluice(['restore', backup], { cwd })
      assert.equal(code, 2, name)
      assert.match(err, /exists: a backup is restored into an empty folder\. Stop the gateway, move .+ away/)
      assert.deepEqual(readdirSync(join(cwd, 'data')), [name])
      assert.equal(readFileSync(join(cwd, 'data', name), 'utf8'), 'anything')
    }
  })

  test('leaves keys that appear while it is restored or taken as they are', async (t) => {
    // A link to a folder that is not mounted does not exist for a look, and does when the file is to be created.
    const cwd = temporaryFolder(t, { 'sluice.yaml': yaml, [join('data', 'anything')]: '' })
    const key = join(cwd, 'data', 'erasure.key')
    symlinkSync(join(cwd, 'not-mounted'), key)
    const restored = await sluice(['restore', backup], { cwd })
    assert.equal(restored.code, 2)
    assert.match(restored.err, /cannot be written: EEXIST/)
    assert.deepEqual(readdirSync(join(cwd, 'data')).sort(), ['anything', 'erasure.key'])
    const keysTo = join(folder, 'vault.keys')
    symlinkSync(join(cwd, 'not-mounted'), keysTo)
    const copied = await sluice(['backup', 'third.db', '--keys', keysTo], { cwd: folder })
    assert.equal(copied.code, 2)
    assert.equal(readlinkSync(keysTo), join(cwd, 'not-mounted'))
    assert.equal(existsSync(join(folder, 'third.db')), false)
  })

  test('is refused without its keys, unless they are given up', async (t) => {
    const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
    const { code, err } = await sluice(['restore', backup, '--keys', './nowhere'], { cwd })
    assert.equal(code, 2)
    assert.match(err, /nowhere, do not exist: name their file with --keys/)
    assert.equal(existsSync(join(cwd, 'data', 'sluice.db')), false)
    const without = await sluice(['restore', backup, '--without-keys'], { cwd })
    assert.equal(without.code, 0, without.err)
    assert.equal(existsSync(join(cwd, 'data', 'erasure.key')), false)
  })

  test('is refused where it is damaged, of a newer version, or no backup, and nothing is left behind', async (t) => {
    const cwd = temporaryFolder(t, { 'sluice.yaml': yaml, 'garbage.db': 'x'.repeat(20_000), 'empty.db': '' })
    const newer = join(cwd, 'newer.db')
    writeFileSync(newer, readFileSync(backup))
    const db = new DatabaseSync(newer)
    db.exec('PRAGMA user_version = 999')
    db.close()
    const broken = join(cwd, 'broken.db')
    const bytes = readFileSync(backup)
    bytes.fill(0xff, 3 * 8_192, 9 * 8_192)
    writeFileSync(broken, bytes)
    for (const [file, code, says] of [
      ['garbage.db', 1, /damaged or no store/],
      ['empty.db', 2, /is no backup of a store/],
      ['nowhere.db', 2, /does not exist/],
      ['newer.db', 2, /is of a newer version \(schema 999/],
      ['broken.db', 1, /damaged/],
    ] as const) {
      const ran = await sluice(['restore', file, '--without-keys'], { cwd })
      assert.match(ran.err, says, file)
      assert.equal(ran.code, code, file)
      assert.deepEqual(readdirSync(join(cwd, 'data')), [], file)
    }
  })

  test('a second backup replaces no file, and a damaged row is told', async (t) => {
    const again = await sluice(['backup', backup], { cwd: folder })
    assert.equal(again.code, 2)
    assert.match(again.err, /exists\. A backup replaces nothing: name another file/)
    const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
    assert.equal((await sluice(['restore', backup], { cwd })).code, 0)
    const db = new DatabaseSync(join(cwd, 'data', 'sluice.db'))
    db.exec('UPDATE states SET attempts = attempts + 1 WHERE seq = 100')
    db.close()
    const damaged = await sluice(['backup', 'copy.db'], { cwd })
    assert.equal(damaged.code, 1)
    assert.match(
      damaged.err,
      /The backup was not kept: a row of .+ is damaged .+ With --unchecked it is kept/,
    )
    assert.deepEqual(readdirSync(cwd).sort(), ['data', 'sluice.yaml'])
    assert.equal((await sluice(['backup', 'copy.db', '--unchecked'], { cwd })).code, 0)
    mkdirSync(join(cwd, 'other'))
    writeFileSync(join(cwd, 'other', 'sluice.yaml'), yaml)
    const restored = await sluice(['restore', '../copy.db'], { cwd: join(cwd, 'other') })
    assert.equal(restored.code, 0, restored.err)
  })
})

test('a store that is no file is refused, with the way out', async (t) => {
  const cwd = temporaryFolder(t)
  const inMemory = await sluice(['backup', 'a.db'], { cwd, env: { SLUICE_STORE: 'sqlite::memory:' } })
  assert.equal(inMemory.code, 2)
  assert.match(inMemory.err, /in the memory of its gateway/)
  const env = { SLUICE_STORE: 'postgres://canary:secret@db.example.com/sluice?schema=mine' }
  for (const command of ['backup', 'restore']) {
    const server = await sluice([command, 'a.db'], { cwd, env })
    assert.equal(server.code, 2)
    assert.match(server.err, /The store is a server\. .+ pg_(dump|restore) .*--schema=mine/)
    assert.ok(!server.err.includes('secret@'))
  }
  const missing = await sluice(['backup', 'a.db'], { cwd })
  assert.equal(missing.code, 2)
  assert.match(missing.err, /does not exist: there is nothing to copy/)
})
