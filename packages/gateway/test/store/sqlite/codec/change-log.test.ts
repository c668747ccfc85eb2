/** The decoder reads from a change log exactly what the recorder wrote, whatever the texts are and however large. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { someNotification } from '../../../../src/conformance/store/sample.ts'
import type { Notification, Recipient } from '../../../../src/model.ts'
import { changesOf, Op, Recorder } from '../../../../src/store/sqlite/codec/change-log.ts'
import { Decoder } from '../../../../src/store/sqlite/codec/decoder.ts'
import { readNotification } from '../../../../src/store/sqlite/codec/rows.ts'

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

/** Its two rows as the file holds them, read back as they are read from there. */
function taken(head: Decoder): Notification {
  assert.equal(head.number(), 1)
  assert.equal(head.number(), Op.accept)
  return readNotification([1, ...head.longRow(), ...head.shortRow()])
}

it('decodes every change as it was recorded, from a shared change log and from one of its own', () => {
  console.log(`SLUICE_SEED=${seed}`)
  const recorder = new Recorder()
  const head = new Decoder()
  fc.assert(
    fc.property(fc.array(fields, { minLength: 1, maxLength: 5 }), (those) => {
      const all = those.map((each) => someNotification(each as Partial<Notification>))
      for (const each of all) recorder.put({ accept: [each] })
      const changeLog = recorder.cut()
      for (const [change, each] of all.entries()) {
        head.load(changeLog, change)
        assert.deepEqual(taken(head), each)
        head.load(changesOf(changeLog)[change]!, 0)
        assert.deepEqual(taken(head), each)
      }
    }),
    { seed, numRuns: 100 },
  )
})

it('records nothing of a change that cannot be written', () => {
  const recorder = new Recorder()
  const before = someNotification()
  const after = someNotification()
  recorder.put({ accept: [before] })
  assert.throws(() => recorder.put({ accept: [before, { ...after, status: 'delivered' }] }), TypeError)
  // The first of its writes is on the tape already when the second turns out to be none.
  const nobody = { tenant: 'acme' } as unknown as Recipient
  assert.throws(() => recorder.put({ accept: [after], recipients: [nobody] }), TypeError)
  recorder.put({ accept: [after] })
  const changeLog = recorder.cut()
  const head = new Decoder()
  assert.equal(changeLog.ends.length, 2)
  head.load(changeLog, 1)
  assert.deepEqual(taken(head), after)
})
