/** Two gateways as processes of their own, of which the second has an older configuration: it lacks a channel of the first. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import process from 'node:process'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { createSite, type Site } from '../child.ts'
import { dropSchemas, schemaUrl } from '../store/postgres/database.ts'

const pool = { provider: 'sandbox', accounts: [{ id: 'main', rate: '2/s' }] }
const hour = 3_600_000

async function post(site: Site, recipient: string, more: object = {}): Promise<string> {
  const content = { subject: recipient, text: recipient }
  const body = { recipient: { id: recipient, phone: '+4915112345678' }, channel: 'sms', content, ...more }
  const answer = await site.call('POST', '/api/v1/notifications', body)
  assert.equal(answer.status, 202, answer.text)
  return answer.json<{ notificationId: string }>().notificationId
}

describe('a rolling deployment', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('a gateway with an older configuration leaves a channel to the one that serves it', async (t) => {
    const state = `${process.env.SLUICE_TEST_REDIS}?prefix=channels:${randomBytes(4).toString('hex')}:`
    const siteOf = (pools: object) =>
      createSite(t, {
        policy: { version: 1, limits: [] },
        config: { store: schemaUrl('channels'), state, pools },
      })
    const newer = await siteOf({ email: pool, sms: pool })
    const older = await siteOf({ email: pool })
    await newer.start()
    const ids: string[] = []
    for (let n = 0; n < 20; n += 1) ids.push(await post(newer, `r${n}`))
    const later = await post(newer, 'later', { sendAt: new Date(Date.now() + 2 * hour).toISOString() })
    await older.start()
    const read = async (id: string) => {
      const answer = await newer.call('GET', `/api/v1/notifications/${id}`)
      return answer.json<{
        readonly status: string
        readonly timeline: readonly { readonly status: string }[]
      }>()
    }
    const until = Date.now() + 30_000
    for (const id of ids) {
      let found = await read(id)
      for (; found.status !== 'delivered' && Date.now() < until; found = await read(id)) await sleep(100)
      const path = found.timeline.map(({ status }) => status)
      assert.equal(found.status, 'delivered', `${id}: ${path.join()}`)
      assert.ok(!path.includes('dead'), `${id}: ${path.join()}`)
    }
    assert.equal((await read(later)).status, 'scheduled')
  })
})
