/** Answers that are assembled by hand equal the result of JSON.stringify. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { acceptedText, resultText } from '../../src/http/accepted-text.ts'
import { acceptedAnswer, acceptedResult } from '../../src/http/answer.ts'
import type { Notification } from '../../src/model.ts'

const seed = Number(process.env.SLUICE_SEED ?? 1)
const instant = fc.oneof(
  fc.integer({ min: 0, max: 4e12 }),
  fc.constantFrom(8.64e15, 8.64e15 + 1, Number.POSITIVE_INFINITY),
)
const text = fc.string({ unit: 'binary', maxLength: 20 })
const rule = fc.record({
  limit: text,
  window: fc.constantFrom('2/day', '1/300ms'),
  used: fc.nat(),
  max: fc.nat(),
  remaining: fc.nat(),
  freesAt: fc.option(instant),
  admits: fc.boolean(),
})
const decision = fc.record(
  {
    outcome: fc.constantFrom('send', 'delay', 'digest', 'fallback', 'suppress'),
    reason: fc.constantFrom('quiet_hours', 'over_limit', 'send_at'),
    limit: text,
    at: instant,
    policyVersion: text,
    rules: fc.array(rule, { maxLength: 4 }),
  },
  { requiredKeys: ['outcome', 'policyVersion', 'rules'] },
)
const accepted = fc.record({
  status: fc.constantFrom('queued', 'scheduled', 'digesting', 'suppressed'),
  dueAt: instant,
  decision,
})

it('answers assembled by hand equal those of JSON.stringify', () => {
  console.log(`SLUICE_SEED=${seed}`)
  fc.assert(
    fc.property(accepted, text, (fields, recipient) => {
      const notification = { ...someNotification(), ...fields } as Notification
      assert.equal(acceptedText(notification), JSON.stringify(acceptedAnswer(notification)))
      assert.equal(
        resultText(recipient, notification),
        JSON.stringify(acceptedResult(recipient, notification)),
      )
    }),
    { seed, numRuns: 2_000 },
  )
})
