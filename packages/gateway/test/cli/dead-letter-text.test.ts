import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { NotificationAnswer, PoolsAnswer } from '../../src/cli/answers.ts'
import { deadLetterText } from '../../src/cli/dead-letter-text.ts'

const now = Date.parse('2026-11-22T10:00:00Z')

function letter(reason: string, detail?: string, expiresAt: string | null = null): NotificationAnswer {
  return {
    notificationId: '01',
    tenant: 't',
    module: 'm',
    recipient: 'u',
    channel: 'email',
    category: 'product',
    template: null,
    priority: 'normal',
    status: 'dead',
    sendAt: null,
    createdAt: '2026-11-22T09:00:00.000Z',
    expiresAt,
    decision: { outcome: 'send', policyVersion: 'p', rules: [] },
    timeline: [
      {
        at: '2026-11-22T09:59:00.000Z',
        status: 'dead',
        reason,
        attempt: 6,
        ...(detail === undefined ? {} : { detail }),
      },
    ],
  }
}

function pools(...accounts: readonly (readonly [string, string, string | null])[]): PoolsAnswer {
  return {
    pools: [
      {
        channel: 'email',
        provider: 'smtp',
        rate: '1/s',
        accounts: accounts.map(([id, status, until]) => ({
          id,
          rate: '1/s',
          used: 0,
          status,
          blockedUntil: null,
          outUntil: until,
          outBecause: until === null ? null : 'breaker',
          learnedRate: null,
          concurrency: 1,
        })),
      },
    ],
  }
}

test('a dead letter that waits for accounts names those that are out, until when, and that it is redriven', () => {
  const out = pools(['a', 'healthy', null], ['b', 'open', '2026-11-22T10:01:00.000Z'])
  assert.equal(
    deadLetterText(letter('circuit_open'), out, now),
    [
      'It is a dead letter since 2026-11-22 09:59:00Z (circuit_open): every account for email had failed too often.',
      'Out are 1 of 2 accounts: b (open until 2026-11-22 10:01:00Z (in 1 min)).',
      'It returns by itself when there is room; to send it now: sluice dead-letters redrive 01.',
    ].join('\n'),
  )
})

test('a token that may not see the accounts is told to ask an operator, and a channel without a pool is named', () => {
  assert.match(deadLetterText(letter('pool_blocked'), undefined, now), /An operator sees with "sluice pools"/)
  assert.match(deadLetterText(letter('pool_blocked'), { pools: [] }, now), /No pool serves email in this/)
})

test('accounts that are out are counted after the first five', () => {
  const many = Array.from({ length: 500 }, (_, index) => [`a${index}`, 'blocked', null] as const)
  assert.match(
    deadLetterText(letter('shed'), pools(...many), now),
    /Out are 500 of 500 accounts: a0 \(blocked\); .*a4 \(blocked\); 495 more\./,
  )
})

test('a dead letter that stays says how it is redriven and when it expires', () => {
  const text = deadLetterText(letter('outcome_unknown', 'reset', '2026-11-22T12:00:00.000Z'), undefined, now)
  assert.match(text, /the provider never said whether it took attempt 6, .* second message \(reset\)\./)
  assert.match(
    text,
    /It stays until somebody sends it again: sluice dead-letters redrive 01\. It expires at .*\(in 2 h\)\.$/,
  )
})
