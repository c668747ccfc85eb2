/**
 * A channel whose provider requires a subject, such as SendGrid, refuses a notification without one before it
 * is accepted.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runningGateway } from '../cli/session.ts'
import { temporaryFolder } from '../config/folder.ts'

const to = { id: 'user-42', email: 'ada@example.com' }
const sendgrid =
  '{ provider: sendgrid, accounts: [{ id: b, url: "http://127.0.0.1:9", secret: SG.x, from: a@b.example }] }'
const smtp = '{ provider: smtp, accounts: [{ id: a, url: "smtp://127.0.0.1:9" }] }'

test('a mail without a subject is refused where SendGrid may send it, by content and by template', async (t) => {
  const templates = temporaryFolder(t, {
    'bare/text.liquid': 'Hi',
    'whole/text.liquid': 'Hi',
    'whole/email.subject.liquid': 'Hi',
  })
  for (const pools of [sendgrid, `[${smtp}, ${sendgrid}]`]) {
    const { post } = await runningGateway(t, `templates: ${templates}\npools: { email: ${pools} }\n`)
    const message = { recipient: to, channel: 'email' }
    for (const content of [{ text: 'x' }, { html: '<p>x</p>' }]) {
      for (const [path, body] of [
        ['/notifications', { ...message, content }],
        ['/decisions', { ...message, content }],
        ['/notifications/batch', { recipients: [to], channel: 'email', content }],
      ] as const) {
        const refused = await post(path, body)
        assert.equal(refused.status, 400, path)
        assert.equal((refused.body.errors as { path: string }[])[0]!.path, '/content/subject')
      }
    }
    const bare = await post('/notifications', { ...message, template: 'bare' })
    assert.deepEqual(bare.body.errors, [
      { path: '/template', message: 'has no subject for email, and its provider needs one' },
    ])
    for (const said of [
      { content: { subject: 's', text: 'x' } },
      { content: { title: 't', text: 'x' } },
      { template: 'whole' },
    ])
      assert.equal((await post('/decisions', { ...message, ...said })).status, 200)
  }
})

test('a mail without a subject is accepted where every provider supports it', async (t) => {
  const { post } = await runningGateway(t, `pools: { email: ${smtp} }\n`)
  const mail = { recipient: to, channel: 'email', content: { text: 'x' } }
  assert.equal((await post('/decisions', mail)).status, 200)
})
