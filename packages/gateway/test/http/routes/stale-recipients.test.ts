/** Recipients whom another gateway has changed: its hint may be late or lost, and no answer is made of the older copy. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRecipientCache } from '../../../src/admission/recipient-cache.ts'
import { createRecipientEditor } from '../../../src/http/recipient-editor.ts'
import { createUnsubscribeLinks } from '../../../src/http/unsubscribe.ts'
import type { Recipient } from '../../../src/model.ts'
import { createMemoryRecord } from '../../../src/store/memory/memory.ts'
import { startStub } from '../stub.ts'

const rightMs = 250
const tenant = 'default'
const record = createMemoryRecord(rightMs)
const [mine, other] = [record.open('1'), record.open('2')]
const recipients = createRecipientCache({ store: mine })
const links = createUnsubscribeLinks({
  publicUrl: 'https://notify.example.com',
  key: 'a secret of the tests',
})
const editor = createRecipientEditor({
  store: mine,
  gate: {
    async saveRecipient(recipient) {
      const { applied } = await mine.commit({ recipients: [recipient] })
      recipients.forget(recipient.tenant, recipient.id)
      return applied
    },
  },
})
const stub = await startStub({ parts: { recipients, editor, links, store: mine } })

/** Writes a recipient by the other gateway, of whose hint nothing is heard here. */
async function saveAtTheOther(recipient: Omit<Recipient, 'tenant'>): Promise<void> {
  const { version = 0 } = (await other.recipient(tenant, recipient.id)) ?? {}
  assert.ok((await other.commit({ recipients: [{ ...recipient, tenant, version }] })).applied)
}

const message = { channel: 'email', content: { subject: 'Hello', text: 'World' } }

test('an address that another gateway has stored is found, where none was when this one last asked', async () => {
  const post = () => stub.ask('POST', '/notifications', { ...message, recipient: 'ada' })
  assert.equal((await post()).status, 400)
  await saveAtTheOther({ id: 'ada', email: 'ada@example.com' })
  const { status, text } = await post()
  assert.equal(status, 202, text)
})

test('a batch finds the addresses that another gateway has stored', async () => {
  const post = () => stub.ask('POST', '/notifications/batch', { ...message, recipients: ['bob', 'dan'] })
  const codes = async () => (await post()).body.results.map(({ code }) => code)
  assert.deepEqual(await codes(), ['INVALID_REQUEST', 'INVALID_REQUEST'])
  await saveAtTheOther({ id: 'bob', email: 'bob@example.com' })
  assert.deepEqual(await codes(), [undefined, 'INVALID_REQUEST'])
})

test('a click is an opt-out again, where another gateway has taken back the one of before', async () => {
  const about = { tenant, to: { id: 'eve' }, category: 'marketing', channel: 'email' } as const
  const click = () => stub.ask('POST', new URL(links.urlFor!(about)).pathname)
  assert.equal((await click()).status, 200)
  assert.equal((await click()).status, 200, 'from here on the opt-out is in memory')
  await saveAtTheOther({ id: 'eve', optOuts: [] })
  assert.equal((await click()).status, 200)
  assert.deepEqual((await other.recipient(tenant, 'eve'))?.optOuts, [
    { category: 'marketing', channel: 'email' },
  ])
})
