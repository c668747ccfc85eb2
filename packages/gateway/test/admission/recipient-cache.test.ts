/** The recipient cache is bounded in bytes: a record may have a few characters or a hundred thousand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRecipientCache } from '../../src/admission/recipient-cache.ts'
import { SluiceError } from '../../src/errors.ts'
import type { Recipient } from '../../src/model.ts'
import type { RecipientKey, Store } from '../../src/ports.ts'

const store: Pick<Store, 'recipients' | 'mayHave'> = {
  recipients: async (keys) => keys.map(() => undefined),
  mayHave: () => true,
}
const optOutsMax = 500

function largePerson(n: number): Recipient {
  const optOuts = Array.from({ length: optOutsMax }, (_, k) => ({ category: `${'c'.repeat(60)}${k}` }))
  return { tenant: 'acme', id: `user-${n}`, optOuts }
}

test('the cache stays within its bytes with records at the maximum of the schema', () => {
  const recipients = createRecipientCache({ store })
  const count = 3_000
  for (let n = 0; n < count; n += 1) recipients.put(largePerson(n))
  const kept = Array.from({ length: count }, (_, n) => recipients.cached('acme', `user-${n}`)).filter(Boolean)
  const bytes = kept.reduce((sum, recipient) => sum + JSON.stringify(recipient).length, 0)
  assert.ok(kept.length > 0 && bytes < 16 * 2 ** 20, `${kept.length} people of ${bytes} bytes are kept`)
})

test('the cache holds 20,000 recipients without preferences', async () => {
  const recipients = createRecipientCache({ store })
  for (let n = 0; n < 20_000; n += 1) await recipients.find('acme', `user-${n}`)
  for (let n = 0; n < 20_000; n += 1) assert.equal(recipients.cached('acme', `user-${n}`), null)
})

test('the cache returns written recipients and reads forgotten ones again', async () => {
  const recipients = createRecipientCache({ store, bytesMax: 2_000 })
  const recipient: Recipient = { tenant: 'acme', id: 'eve', locale: 'it' }
  recipients.put(recipient)
  recipients.put({ ...recipient, locale: 'de' })
  assert.equal(recipients.cached('acme', 'eve')?.locale, 'de')
  for (let n = 0; n < 8; n += 1) recipients.put({ ...recipient, id: `other-${n}` })
  recipients.put({ ...recipient, locale: 'fr' })
  assert.equal((await recipients.find('acme', 'eve'))?.locale, 'fr')
  recipients.forget('acme', 'eve')
  assert.equal(recipients.cached('acme', 'eve'), undefined)
})

test('a batch reads the recipients that are not cached with one question, and a cached batch asks nothing', async () => {
  const asked: (readonly RecipientKey[])[] = []
  const damage = new SluiceError('STORE_UNAVAILABLE', 'A row is damaged.', { row: 'recipient dan' })
  const recipients = createRecipientCache({
    store: {
      async recipients(keys) {
        asked.push(keys)
        return keys.map(({ tenant, recipient: id }) => {
          if (id === 'dan') return damage
          return id === 'eve' ? { tenant, id, locale: 'it' } : undefined
        })
      },
      mayHave: (_, __, id) => id !== 'new',
    },
  })
  recipients.put({ tenant: 'acme', id: 'bob', locale: 'de' })
  const keys = ['eve', 'new', 'bob', 'dan', 'amy'].map((recipient) => ({ tenant: 'acme', recipient }))
  const found = await recipients.findAll(keys)
  assert.deepEqual(found, [
    { tenant: 'acme', id: 'eve', locale: 'it' },
    null,
    { tenant: 'acme', id: 'bob', locale: 'de' },
    damage,
    null,
  ])
  assert.deepEqual(
    asked.map((question) => question.map(({ recipient }) => recipient)),
    [['eve', 'dan', 'amy']],
  )
  const sound = keys.filter(({ recipient }) => recipient !== 'dan')
  assert.ok(Array.isArray(recipients.findAll(sound)), 'without a promise')
  assert.equal(asked.length, 1)
  await assert.rejects(recipients.find('acme', 'dan'), damage)
})

test('a recipient who is written while a batch is read is found as written', async () => {
  const recipients = createRecipientCache({
    store: {
      async recipients() {
        recipients.put({ tenant: 'acme', id: 'eve', locale: 'fr' })
        return [{ tenant: 'acme', id: 'eve', locale: 'it' }]
      },
      mayHave: () => true,
    },
  })
  const found = await recipients.findAll([{ tenant: 'acme', recipient: 'eve' }])
  assert.deepEqual(found, [{ tenant: 'acme', id: 'eve', locale: 'fr' }])
})

test('a recipient who is forgotten while they are read is read again: the answer may be from before the change', async () => {
  let answer = (_: readonly (Recipient | undefined)[]): void => {}
  const recipients = createRecipientCache({
    store: { recipients: () => new Promise((resolve) => (answer = resolve)), mayHave: () => true },
  })
  const before: Recipient = { tenant: 'acme', id: 'eve', email: 'old@example.com' }
  const finding = recipients.find('acme', 'eve')
  recipients.forget('acme', 'eve')
  answer([before])
  assert.deepEqual(await finding, before)
  assert.equal(recipients.cached('acme', 'eve'), undefined, 'it is of no use for whoever asks later')
  const again = recipients.find('acme', 'eve')
  answer([undefined])
  assert.equal(await again, null)
  assert.equal(recipients.cached('acme', 'eve'), null)
})
