/** The webhook of one event at two gateways of one PostgreSQL: providers call again, and a balancer takes any of them. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { needs } from '../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../src/adapters/clock.ts'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { createCorrelation } from '../../src/feedback/correlation.ts'
import { createFeedback } from '../../src/feedback/feedback.ts'
import { createMailgunForm } from '../../src/feedback/forms/mailgun.ts'
import { createSentKeys } from '../../src/feedback/sent-keys.ts'
import { createWebhooks } from '../../src/feedback/webhooks.ts'
import { createRecipientEditor } from '../../src/http/recipient-editor.ts'
import { advance } from '../../src/model.ts'
import type { Store } from '../../src/ports.ts'
import { dropSchemas, joinAt, schemaUrl } from '../store/postgres/database.ts'
import { jsonCall, mailgunBody } from './signers.ts'

const clock = createSystemClock()
const signingKey = 'key-1'

function webhooksOf(store: Store) {
  const { feedback: record } = store
  const saveRecipient = async (recipient: object) =>
    (await store.commit({ recipients: [recipient as never] })).applied
  const feedback = createFeedback({
    record,
    correlate: createCorrelation({ record, keys: createSentKeys(() => Buffer.from('key')), clock }),
    edit: createRecipientEditor({ gate: { saveRecipient }, store }).edit,
    clock,
    tries: () => false,
    isShared: true,
    onUnknown: () => {},
    onError: (what, error) => assert.fail(`${what}: ${String(error)}`),
  })
  const account = { channel: 'email', account: 'main', form: 'mailgun' } as const
  const accounts = [{ ...account, read: createMailgunForm(signingKey) }]
  return { feedback, ...createWebhooks({ accounts, feedback, clock, onRefused: () => {} }) }
}

after(dropSchemas)

test(
  'a complaint whose webhook reaches two gateways at once counts once, and opts out once',
  needs('postgres'),
  async (t) => {
    const url = schemaUrl('webhook of two')
    const fleets = await Promise.all([joinAt(url, clock), joinAt(url, clock)])
    const gateways = fleets.map(({ store }) => webhooksOf(store))
    t.after(async () => {
      for (const { feedback } of gateways) await feedback.stop()
      for (const { store, members } of fleets) {
        await store.close()
        await members.close()
      }
    })
    const { store } = fleets[0]!
    const now = clock.now()
    const sent = Array.from({ length: 20 }, (_, n) => {
      const to = { id: `r${n}`, email: `r${n}@example.com` }
      return someNotification({ channel: 'email', category: 'marketing', to, createdAt: now })
    })
    await store.commit({ accept: sent })
    const events = [
      { at: now, status: 'sending', account: 'main' },
      { at: now, status: 'delivered', account: 'main' },
    ] as const
    const moves = sent.map((each) => advance(each, events, { firedAt: now, attempts: 1, dueAt: now }))
    assert.ok((await store.commit({ moves })).applied)
    await Promise.all(
      sent.flatMap(({ id }) => {
        const event = {
          ...{ event: 'complained', id: `e-${id}`, timestamp: now / 1_000 },
          message: { headers: { 'message-id': `${id}@example.com` } },
        }
        const call = jsonCall(mailgunBody(event, now, signingKey, `token ${id}`))
        return gateways.map(async ({ take }) => assert.equal(await take('email', 'main', call), 1))
      }),
    )
    const ids = sent.map(({ id }) => id)
    assert.equal((await store.feedback.of('acme', ids)).length, 20)
    const told = gateways.map(({ feedback }) => feedback.counts().events.complaint)
    assert.equal(told[0]! + told[1]!, 20, `told by one of them: ${told.join(' and ')}`)
    assert.deepEqual(await store.deliveryTotals!.read(['marketing']), [
      { tenant: 'acme', category: 'marketing', delivered: 20, complained: 20 },
    ])
    const recipients = await store.recipients(
      sent.map(({ to: { id: recipient } }) => ({ tenant: 'acme', recipient })),
    )
    for (const found of recipients)
      assert.deepEqual((found as { optOuts?: unknown }).optOuts, [
        { category: 'marketing', channel: 'email' },
      ])
  },
)
