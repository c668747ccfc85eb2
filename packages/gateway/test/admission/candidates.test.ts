/** Candidates of one request are made in slices: large data of many recipients holds nobody up. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCandidateFactory } from '../../src/admission/candidates.ts'
import { encodingOf, type JsonObject, keepEncoding } from '../../src/content.ts'
import { readBatchRecipient } from '../../src/http/draft.ts'

const message = { channel: 'email', category: 'product', priority: 'normal' } as const

/** Data as the parser's thread hands them on: a part of the bytes of the whole request. */
function standIn(data: JsonObject, request = 2 ** 20): JsonObject {
  const text = Buffer.from(JSON.stringify(data))
  const whole = new Uint8Array(request)
  whole.set(text)
  const json = whole.subarray(0, text.length)
  const stand = {}
  keepEncoding(stand, { bytes: json.length, json, isStandIn: true })
  return stand
}

test('data of several kilobytes each are read some at a time, with the event loop free between', async () => {
  let pauses = 0
  let made = 0
  const candidatesOf = createCandidateFactory({
    recipients: { cached: () => null, findAll: (keys) => keys.map(() => null) },
    policy: { version: 'p1' },
    clock: {
      now: () => 0,
      soon(callback) {
        pauses += 1
        setImmediate(callback)
      },
    },
    random: {
      next: () => 0,
      id: () => {
        made += 1
        return `id-${made}`
      },
    },
  })
  const drafts = Array.from({ length: 12 }, (_, n) => ({
    ...message,
    to: { id: `user-${n}` },
    data: { text: 'x'.repeat(16_000) },
  }))
  const candidates = await candidatesOf({ tenant: 'acme', module: 'shop' }, drafts)
  assert.equal(candidates.length, 12)
  assert.ok(candidates.every(({ content }) => (content?.bytes ?? 0) > 16_000))
  // 32 KiB in one turn: three of them at most.
  assert.ok(pauses >= 4, `${pauses} pauses`)
})

test('data that stay in their notification do not keep the bytes of their request in memory', () => {
  const recipient = { id: 'ada', data: standIn({ name: 'Ada' }) }
  const { data } = readBatchRecipient(recipient, message)
  assert.deepEqual(data, { name: 'Ada' })
  assert.equal(encodingOf(data!)?.json, undefined)
})

test('the JSON of large data of one recipient is written as it came, unless there are common data', () => {
  const own = { text: 'x'.repeat(16_000) }
  const recipient = { id: 'ada', data: standIn(own) }
  const { data } = readBatchRecipient(recipient, message)
  assert.deepEqual(data, own)
  assert.equal(Buffer.from(encodingOf(data!)!.json!).toString(), JSON.stringify(own))
  const joined = readBatchRecipient(recipient, { ...message, data: { text: 'y', more: 1 } })
  assert.deepEqual(joined.data, { ...own, more: 1 })
  assert.equal(encodingOf(joined.data!), undefined)
})
