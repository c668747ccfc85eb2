/** Concurrent changes of a recipient see each other's result. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRecipientEditor } from '../../src/http/recipient-editor.ts'
import type { Recipient } from '../../src/model.ts'

const recipients = new Map<string, Recipient>()
const turn = () => new Promise(setImmediate)
const editor = createRecipientEditor({
  store: {
    isVersioned: false,
    async recipients(keys) {
      await turn()
      return keys.map(({ tenant, recipient }) => recipients.get(`${tenant}/${recipient}`))
    },
  },
  gate: {
    async saveRecipient(recipient) {
      await turn()
      recipients.set(`${recipient.tenant}/${recipient.id}`, recipient)
      return true
    },
  },
})
const set = (fields: Partial<Recipient>, id = 'ada') =>
  editor.edit('t', id, (before) => ({ tenant: 't', id, ...before, ...fields }))

test('concurrent changes to one recipient are all kept, in their order', async () => {
  await Promise.all([
    set({ email: 'a@example.com', locale: 'de' }),
    set({ phone: '+4512345678' }),
    set({ locale: 'it' }),
  ])
  assert.deepEqual(recipients.get('t/ada'), {
    tenant: 't',
    id: 'ada',
    email: 'a@example.com',
    phone: '+4512345678',
    locale: 'it',
  })
})

test('a failed change stops neither the ones behind it nor those of other recipients', async () => {
  const failed = editor.edit('t', 'ada', () => {
    throw new Error('no')
  })
  const [, after, other] = await Promise.all([
    assert.rejects(failed),
    set({ locale: 'fr' }),
    set({ locale: 'es' }, 'bob'),
  ])
  assert.deepEqual([after.locale, other.locale], ['fr', 'es'])
})
