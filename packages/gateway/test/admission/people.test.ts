/** What is kept of people is bounded in bytes: a record may have a few characters or a hundred thousand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPeople } from '../../src/admission/people.ts'
import type { Recipient } from '../../src/model.ts'

const store = { recipient: () => Promise.resolve(undefined), mayHave: () => true }
const optOutsMax = 500

function largePerson(n: number): Recipient {
  const optOuts = Array.from({ length: optOutsMax }, (_, k) => ({ category: `${'c'.repeat(60)}${k}` }))
  return { tenant: 'acme', id: `user-${n}`, optOuts }
}

test('records at the bound of the schema do not fill the memory', () => {
  const people = createPeople({ store })
  const count = 3_000
  for (let n = 0; n < count; n += 1) people.put(largePerson(n))
  const kept = Array.from({ length: count }, (_, n) => people.cached('acme', `user-${n}`)).filter(Boolean)
  const bytes = kept.reduce((sum, person) => sum + JSON.stringify(person).length, 0)
  assert.ok(kept.length > 0 && bytes < 16 * 2 ** 20, `${kept.length} people of ${bytes} bytes are kept`)
})

test('twenty thousand of whom nothing is known are remembered', async () => {
  const people = createPeople({ store })
  for (let n = 0; n < 20_000; n += 1) await people.find('acme', `user-${n}`)
  for (let n = 0; n < 20_000; n += 1) assert.equal(people.cached('acme', `user-${n}`), null)
})

test('what was written and what was forgotten counts from then on', async () => {
  const people = createPeople({ store, bytesMax: 2_000 })
  const person: Recipient = { tenant: 'acme', id: 'eve', locale: 'it' }
  people.put(person)
  people.put({ ...person, locale: 'de' })
  assert.equal(people.cached('acme', 'eve')?.locale, 'de')
  for (let n = 0; n < 8; n += 1) people.put({ ...person, id: `other-${n}` })
  people.put({ ...person, locale: 'fr' })
  assert.equal((await people.find('acme', 'eve'))?.locale, 'fr')
  people.forget('acme', 'eve')
  assert.equal(people.cached('acme', 'eve'), undefined)
})
