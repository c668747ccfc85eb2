/** A record that was restored from a dump: the statement of the guide holds everything before a gateway starts on it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSite } from '../../child.ts'
import { ask, dropSchemas, schemaUrl } from './database.ts'

const guide = readFileSync(new URL('../../../../../docs/operate/production.md', import.meta.url), 'utf8')

describe('a restored record', needs('postgres'), () => {
  after(dropSchemas)

  test('lets nothing leave where it holds the hold of the guide, until that is ended', async (t) => {
    const url = schemaUrl('restored')
    const [, statement] = /psql \S+ -c "(INSERT INTO sluice\.hold [^"]+)"/.exec(guide)!
    const site = await createSite(t, { policy: { version: 1, limits: [] }, config: { store: url } })
    await site.start()
    const sent = await site.call('POST', '/api/v1/notifications', {
      recipient: { id: 'r', email: 'r@example.com' },
      channel: 'email',
      content: { subject: 'Hello', text: 'Hello' },
      sendAt: new Date(Date.now() + 1_000).toISOString(),
    })
    const { notificationId: id } = sent.json<{ notificationId: string }>()
    await site.terminate()
    await ask(url, statement!.replace('sluice.hold', 'hold'))
    await site.start()
    const read = async () =>
      (await site.call('GET', `/api/v1/notifications/${id}`)).json<{ readonly status: string }>().status
    await sleep(2_500)
    assert.equal(await read(), 'scheduled')
    const { items } = (await site.call('GET', '/api/v1/holds')).json<{
      items: readonly { until: string }[]
    }>()
    assert.ok(Math.abs(Date.parse(items[0]!.until) - Date.now() - 7_200_000) < 60_000)
    assert.equal((await site.call('DELETE', '/api/v1/holds/restored')).status, 204)
    for (const until = Date.now() + 10_000; (await read()) !== 'delivered'; await sleep(50))
      assert.ok(Date.now() < until)
  })
})
