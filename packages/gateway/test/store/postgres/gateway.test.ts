/** A whole gateway over PostgreSQL, as a process of its own. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSite, type Site } from '../../child.ts'
import { ask, dropSchemas, schemaUrl } from './database.ts'
import { startProxy } from './proxy.ts'
import { sluice } from './sluice.ts'

const content = { subject: 'Hello', text: 'Hello' }
const ada = { id: 'ada', email: 'ada@example.com' }

async function ended(site: Site, id: string): Promise<{ status: string; explanation: { sentence: string } }> {
  for (const until = performance.now() + 20_000; ; await sleep(50)) {
    const found = (await site.call('GET', `/api/v1/notifications/${id}?explain=true`)).json<{
      status: string
      explanation: { sentence: string }
    }>()
    if (found.status === 'delivered' || performance.now() > until) return found
  }
}

describe('a gateway over PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('accepts, delivers, and explains after a restart; a scheduled one leaves after a kill', async (t) => {
    const site = await createSite(t, { config: { store: schemaUrl('gateway') } })
    await site.start()
    const send = (more: object, key: string) =>
      site.call(
        'POST',
        '/api/v1/notifications',
        { recipient: ada, channel: 'email', content, ...more },
        { 'idempotency-key': key },
      )
    const first = (await send({}, 'one')).json<{ notificationId: string }>()
    assert.equal((await ended(site, first.notificationId)).status, 'delivered')
    assert.deepEqual((await send({}, 'one')).json(), first, 'the stored answer')
    const sendAt = new Date(Date.now() + 6_000).toISOString()
    const later = (await send({ sendAt, content: { ...content, text: 'Later' } }, 'two')).json<{
      notificationId: string
      status: string
    }>()
    assert.equal(later.status, 'scheduled')

    assert.equal((await site.terminate()).code, 0)
    await site.start()
    const explained = await ended(site, first.notificationId)
    assert.equal(explained.status, 'delivered')
    assert.match(JSON.stringify(explained.explanation), /[Dd]elivered/)
    await site.kill()
    await site.start()
    assert.equal((await ended(site, later.notificationId)).status, 'delivered')
    const { text } = await site.call('GET', '/metrics')
    assert.match(text, /^sluice_notifications_unaccounted 0$/m)
  })

  test('drains with exit code 0 while the server is away, and loses nothing', async (t) => {
    const url = schemaUrl('away_at_end')
    const proxy = await startProxy(url)
    t.after(() => proxy.close())
    const site = await createSite(t, { config: { store: proxy.url } })
    await site.start()
    const sendAt = new Date(Date.now() + 1_000).toISOString()
    const sent = await site.call('POST', '/api/v1/notifications', {
      ...{ recipient: ada, channel: 'email', content, sendAt },
    })
    // It answers requests before everything of it has started.
    while (!site.log().includes('listens on')) await sleep(20)
    proxy.leadTo('postgres://127.0.0.1:1/nowhere')
    proxy.cutAll()
    assert.equal((await site.terminate()).code, 0)
    assert.match(site.log(), /cannot be reached\. What was accepted is on record/)
    proxy.leadTo(url)
    await site.start()
    const { status } = await ended(site, sent.json<{ notificationId: string }>().notificationId)
    assert.equal(status, 'delivered')
  })

  test('ends with exit code 1 where its registration is lost, as behind a fail-over or a restored backup', async (t) => {
    const url = schemaUrl('unregistered')
    const site = await createSite(t, { config: { store: url } })
    await site.start()
    await ask(url, 'DELETE FROM member')
    await ask(
      url,
      `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
        AND objid::int8 = hashtext(current_schema())::int8 & 4294967295`,
    )
    for (const end = Date.now() + 10_000; site.pid !== undefined; await sleep(50)) {
      assert.ok(Date.now() < end, 'it goes on, and nothing is accepted')
      await site.call('GET', '/readyz').catch(() => {})
    }
    assert.equal(site.exit?.code, 1)
    assert.match(site.log(), /"event":"gateway\.declared_dead"/)
    assert.match(site.log(), /^sluice: the store no longer has the registration of this process; it ends/m)
    await site.start()
  })

  test('ends with exit code 2 where another gateway serves the schema', async (t) => {
    const url = schemaUrl('second')
    const site = await createSite(t, { config: { store: url } })
    await site.start()
    const second = sluice(['serve'], { SLUICE_STORE: url, SLUICE_HTTP_PORT: '0' })
    assert.equal(second.status, 2, second.err)
    assert.match(second.err, /Another gateway \(.+\) serves .+ one process serves a store/)
    assert.equal((await site.call('GET', '/readyz')).status, 200)
  })

  test('says how to mend an address that does not serve, and what a good one found', () => {
    const url = schemaUrl('checked')
    const at = (change: (url: URL) => void): string => {
      const changed = new URL(url)
      change(changed)
      return changed.href
    }
    const good = sluice(['check'], { SLUICE_STORE: url })
    assert.equal(good.status, 0, good.err)
    assert.match(good.out, /# Store: PostgreSQL 1\d.*; the schema "t_\w+" will be created\./)
    const elsewhere = sluice(['serve'], { SLUICE_STORE: at((to) => (to.port = '1')), SLUICE_HTTP_PORT: '0' })
    assert.deepEqual([elsewhere.status, elsewhere.out], [2, ''])
    assert.match(elsewhere.err, /cannot be reached at/)
    for (const [wrong, says] of [
      [at((to) => (to.port = '1')), /cannot be reached at .*127\.0\.0\.1:1.*Check that it runs/],
      [at((to) => (to.pathname = '/nowhere')), /does not exist\. Create it: createdb --owner=/],
      [at((to) => (to.username = 'nobody-here')), /refuses the user "nobody-here"/],
      [at((to) => to.searchParams.set('sslmode', 'require')), /does not support SSL/],
    ] as const) {
      const { status, err } = sluice(['check'], { SLUICE_STORE: wrong })
      assert.equal(status, 2, err)
      assert.match(err, says)
    }
  })

  test('reads the address from a file, and shows the password nowhere', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
    const url = new URL(schemaUrl('secret'))
    url.password = 'canary'
    writeFileSync(join(folder, 'address'), `${url.href}\n`)
    for (const args of [['check'], ['check', '--json']]) {
      const { status, out, err } = sluice(args, { SLUICE_STORE_FILE: join(folder, 'address') })
      assert.equal(status, 0, err)
      assert.ok(out.includes('postgres://postgres@127.0.0.1'), out)
      assert.ok(!`${out}${err}`.includes('canary'))
    }
    rmSync(folder, { recursive: true })
  })
})
