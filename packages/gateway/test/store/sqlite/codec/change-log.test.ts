/** A notification is read back from its rows exactly as it was, whatever its texts are and however large. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { someNotification } from '../../../../src/conformance/store/sample.ts'
import type { Notification } from '../../../../src/model.ts'
import { buffersIn, changeLogOf, writesOf } from '../../../../src/store/sqlite/codec/change-log.ts'
import { checkedLong, checkedShort, readNotification } from '../../../../src/store/sqlite/codec/rows.ts'

const seed = Number(process.env.SLUICE_SEED ?? 1)
const text = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 12 }), fc.string({ maxLength: 12 }))
const plain = { noNullPrototype: true }
const fields = fc.record(
  {
    id: fc.uuid(),
    tenant: text,
    to: fc.record({ id: text }, plain),
    category: text,
    requestedChannel: fc.constantFrom('sms', 'push'),
    job: text,
    data: fc.record({ said: text }, plain),
    content: fc.record({ text: fc.oneof(text, fc.constant('ß'.repeat(100_000))) }, plain),
    single: fc.constant(true),
    undecided: fc.constant(true),
    turnedAt: fc.nat(),
    firedAt: fc.nat(),
    digestId: fc.uuid(),
    suspects: fc.array(fc.nat(), { minLength: 1, maxLength: 3 }),
  },
  { requiredKeys: ['id'], ...plain },
)

it('reads every notification from its rows as it was, after their way to another thread', () => {
  console.log(`SLUICE_SEED=${seed}`)
  fc.assert(
    fc.property(fc.array(fields, { minLength: 1, maxLength: 5 }), (those) => {
      const all = those.map((each) => someNotification(each as Partial<Notification>))
      const log = changeLogOf(all.map((each) => writesOf({ accept: [each] })))
      const { changes } = structuredClone(log, { transfer: buffersIn(log) })
      for (const [index, each] of all.entries()) {
        const [write] = changes[index]!.writes
        assert.ok(write?.op === 'accept')
        assert.deepEqual(
          readNotification([1, ...checkedLong(write.long), ...checkedShort(write.short)]),
          each,
        )
      }
    }),
    { seed, numRuns: 100 },
  )
})

it('refuses a change whose path the transition table does not allow', () => {
  const before = someNotification()
  const after = someNotification()
  assert.throws(() => writesOf({ accept: [before, { ...after, status: 'delivered' }] }), TypeError)
})

it('hands content over to the other thread without a copy, and counts its bytes', () => {
  const content = { id: 'c1', tenant: 'acme', bytes: 70_000, content: { text: 'x'.repeat(70_000) } }
  const log = changeLogOf([writesOf({ contents: [content] })])
  const buffers = buffersIn(log)
  assert.deepEqual(
    buffers.map(({ byteLength }) => byteLength),
    [JSON.stringify({ content: content.content }).length],
  )
  assert.ok(log.bytes >= 70_000)
})
