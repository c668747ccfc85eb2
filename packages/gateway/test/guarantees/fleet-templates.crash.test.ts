/** Two gateways as processes of their own, of which the second has older templates: it lacks one of the first. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { createSite } from '../child.ts'
import { dropSchemas, schemaUrl } from '../store/postgres/database.ts'

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-templates-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

describe('a rolling deployment of a template', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('a gateway without it leaves what it takes over of a killed one to the gateway that has it', async (t) => {
    const store = schemaUrl('templates')
    const state = `${process.env.SLUICE_TEST_REDIS}?prefix=templates:${randomBytes(4).toString('hex')}:`
    const templates = folderOf(t)
    mkdirSync(join(templates, 'shipped'))
    for (const part of ['subject', 'text'])
      writeFileSync(join(templates, 'shipped', `${part}.liquid`), 'sent')
    const siteOf = (more: object) =>
      createSite(t, { policy: { version: 1, limits: [] }, config: { store, state, ...more } })
    const [newer, older] = [await siteOf({ templates }), await siteOf({ templates: folderOf(t) })]
    await Promise.all([newer.start(), older.start()])
    const bodyOf = (n: number) => {
      const recipient = { id: `r${n}`, email: `r${n}@example.com` }
      return { recipient, channel: 'email', template: 'shipped' }
    }
    const ids: string[] = []
    const sendAt = new Date(Date.now() + 3_000).toISOString()
    for (let n = 0; n < 40; n += 1) {
      const answer = await newer.call('POST', '/api/v1/notifications', { ...bodyOf(n), sendAt })
      assert.equal(answer.status, 202, answer.text)
      ids.push(answer.json<{ notificationId: string }>().notificationId)
    }
    assert.equal((await older.call('POST', '/api/v1/notifications', bodyOf(0))).status, 400)
    // Both hold some of them by then.
    await sleep(1_500)
    await newer.kill()
    await sleep(3_000)
    await newer.start()
    const until = Date.now() + 40_000
    for (const id of ids) {
      let status = ''
      for (; status !== 'delivered' && Date.now() < until; await sleep(100)) {
        const answer = await older.call('GET', `/api/v1/notifications/${id}`)
        status = answer.json<{ readonly status: string }>().status
        assert.notEqual(status, 'failed')
      }
      assert.equal(status, 'delivered', id)
    }
  })
})
