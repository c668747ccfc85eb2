/** One sentence explains every state; the sentences are compared whole, since operators read nothing else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ExplainedFacts, explain } from '../../src/http/explanation.ts'
import { deadCauses, type Notification, type Reason, statuses, type TimelineEvent } from '../../src/model.ts'
import type { AccountReport } from '../../src/stages.ts'

const now = Date.parse('2026-11-22T10:00:00Z')
const hour = 3_600_000

const account = (id: string, outUntil: number | null = null): AccountReport => ({
  id,
  rate: '1/s',
  used: 0,
  status: outUntil === null ? 'healthy' : 'blocked',
  blockedUntil: outUntil,
  outUntil,
  outBecause: outUntil === null ? null : 'rate_limited',
  learnedRate: null,
  concurrency: 1,
})

function notification(more: Partial<Notification>, ...events: Partial<TimelineEvent>[]): Notification {
  const status = more.status ?? 'scheduled'
  return {
    id: '01',
    tenant: 'acme',
    module: 'shop',
    to: { id: 'user-42' },
    channel: 'email',
    category: 'marketing',
    priority: 'normal',
    createdAt: now - hour,
    fingerprint: 'f',
    dueAt: now + hour,
    decision: { outcome: 'delay', policyVersion: 'p', rules: [] },
    attempts: 0,
    ...more,
    status,
    timeline: [
      { at: now - hour, status: 'accepted' },
      ...events.map((event) => ({ at: now - 60_000, status, ...event })),
    ],
  }
}

const explained = (given: Notification, more: Partial<ExplainedFacts> = {}) =>
  explain({ notification: given, accounts: [account('a'), account('b')], now, namesAccounts: true, ...more })

const waits = (reason: Reason, more: Partial<Notification> = {}) =>
  notification({ decision: { outcome: 'delay', reason, policyVersion: 'p', rules: [] }, ...more }, { reason })

test('a notification that waits says until when and for which limit', () => {
  const rule = { limit: 'marketing-email', used: 2, max: 2, remaining: 0, admits: false }
  const rules = [
    { ...rule, window: '2/day', freesAt: now + hour },
    { ...rule, window: '9/week', freesAt: now, admits: true },
  ]
  const decision = {
    outcome: 'delay' as const,
    reason: 'recipient_limit' as const,
    limit: 'marketing-email',
    policyVersion: 'p',
    rules,
  }
  const held = [{ notificationId: '00', at: now - 23 * hour }]
  assert.deepEqual(explained(waits('recipient_limit', { decision }), { heldBy: held }), {
    verdict: 'waits',
    reason: 'recipient_limit',
    limit: 'marketing-email',
    window: '2/day',
    until: now + hour,
    untilIs: 'booked',
    heldBy: held,
    next: ['cancel'],
    text: 'Waits until 2026-11-22 11:00:00Z: the limit marketing-email admits 2/day, and its places are used or booked until then.',
  })
})

test('each reason to wait has a sentence of its own', () => {
  const sentences: Partial<Record<Reason, string>> = {
    quiet_hours: 'Waits until 2026-11-22 11:00:00Z: the quiet hours of the recipient last until then.',
    legal_hours: 'Waits until 2026-11-22 11:00:00Z: the law allows no marketing message at the hours before.',
    send_at: 'Waits until 2026-11-22 11:00:00Z: the request asked for this instant.',
    tenant_limit:
      'Waits until 2026-11-22 11:00:00Z by estimate: the tenant acme is above its rate, and its notifications leave first in, first out.',
    module_limit:
      'Waits until 2026-11-22 11:00:00Z by estimate: the module shop is above its rate, and its notifications leave first in, first out.',
    digest: 'Waits until 2026-11-22 11:00:00Z: it is collected in a digest that is sent then.',
  }
  for (const [reason, sentence] of Object.entries(sentences))
    assert.equal(explained(waits(reason as Reason)).text, sentence)
})

test('a retry names the account that did not carry it, and which accounts are out until when', () => {
  const retried = notification(
    {},
    { reason: 'retry', provider: 'ses', account: 'b', attempt: 2, detail: '503' },
  )
  const accounts = [account('a'), account('b', now + 30_000)]
  const { text, accounts: out } = explained(retried, { accounts })
  assert.equal(
    text,
    'Waits until 2026-11-22 11:00:00Z: attempt 2 through ses/b did not succeed (503) and it is tried again then; 1 of 2 accounts for email is out: b until 2026-11-22 10:00:30Z by a 429.',
  )
  assert.deepEqual(
    [out?.out, out?.of, out?.firstBackAt, out?.named?.map(({ id }) => id)],
    [1, 2, now + 30_000, ['b']],
  )
})

test('a notification that is due says how late it is, and waits for the first account that is back', () => {
  const due = notification({ status: 'queued', dueAt: now - 5_000 }, {})
  const accounts = [account('a', now + 60_000), account('b', now + 30_000)]
  const explanation = explained(due, { accounts })
  assert.equal(
    explanation.text,
    'Is due since 2026-11-22 09:59:55Z and waits for an account: all 2 accounts for email are out: b until 2026-11-22 10:00:30Z by a 429, a until 2026-11-22 10:01:00Z by a 429.',
  )
  assert.deepEqual(
    [explanation.verdict, explanation.latenessMs, explanation.until, explanation.untilIs],
    ['due', 5_000, now + 30_000, 'estimate'],
  )
  assert.match(explained(due).text, /waits for an account: all 2 accounts for email are in\.$/)
})

test('callers that may not see the accounts learn how many are out, and no name', () => {
  const due = notification({ status: 'queued', dueAt: now }, {})
  const accounts = [account('of-others', now + 1_000)]
  const explanation = explained(due, { accounts, namesAccounts: false })
  assert.equal(JSON.stringify(explanation).includes('of-others'), false)
  assert.match(
    explanation.text,
    /the only account for email is out, the first is back at 2026-11-22 10:00:01Z\.$/,
  )
})

test('accounts that are out are counted after the first five', () => {
  const accounts = Array.from({ length: 500 }, (_, index) => account(`a${index}`, now + index + 1))
  const { text, accounts: out } = explained(notification({ status: 'queued', dueAt: now }, {}), { accounts })
  assert.equal(out?.named?.length, 5)
  assert.match(text, /a0 until .*, a4 until .*, 495 more\.$/)
})

test('every dead letter says if it returns by itself, and what has to be done', () => {
  for (const reason of deadCauses) {
    const { text, returnsByItself, next } = explained(
      notification({ status: 'dead' }, { reason, attempt: 6, provider: 'ses', account: 'a', detail: '500' }),
    )
    const returns = ['pool_blocked', 'shed', 'circuit_open'].includes(reason)
    assert.equal(returnsByItself, returns, reason)
    assert.deepEqual(next, ['redrive', 'cancel'])
    assert.match(
      text,
      returns ? /It returns by itself when there is room\.$/ : /It stays until an operator redrives it\.$/,
    )
    assert.match(
      text,
      new RegExp(`^Is a dead letter since 2026-11-22 09:59:00Z \\(${reason}\\): .*\\(500\\)`),
    )
  }
})

test('a delivered notification says through which account, and how late it left', () => {
  const delivered = notification(
    { status: 'delivered', decision: { outcome: 'send', at: now - 70_000, policyVersion: 'p', rules: [] } },
    { status: 'sending', provider: 'ses', account: 'a', attempt: 1, at: now - 69_988 },
    { provider: 'ses', account: 'a', attempt: 1 },
  )
  assert.deepEqual(explained(delivered), {
    verdict: 'delivered',
    latenessMs: 12,
    next: [],
    text: 'Was delivered at 2026-11-22 09:59:00Z through ses/a, 12 ms after the promised instant.',
  })
})

test('the end of what complaints delay is an estimate', () => {
  const given = notification({ status: 'scheduled', dueAt: now + 60_000 }, { reason: 'complaint_guard' })
  const { text, untilIs } = explained(given, { accounts: [] })
  assert.equal(untilIs, 'estimate')
  assert.match(
    text,
    /^Waits until .* by estimate: too many recipients complain about \w+, so that category is slowed down\.$/,
  )
})

test('every state and every reason gives one sentence, also without accounts, rules or details', () => {
  const reasons: readonly (Reason | undefined)[] = [
    undefined,
    'duplicate',
    'opted_out',
    'over_limit',
    'complaint_guard',
    'invalid_address',
    'provider_capacity',
    'retry',
    ...deadCauses,
  ]
  for (const status of statuses) {
    for (const reason of reasons) {
      for (const dueAt of [now - 1, now + 1, Number.MAX_SAFE_INTEGER]) {
        const given = notification({ status, dueAt }, reason === undefined ? {} : { reason })
        const { text } = explained(given, { accounts: [] })
        assert.match(text, /^[A-Z].*\.$/, `${status} ${reason}`)
        assert.doesNotMatch(text, /undefined|null|NaN|\n/, `${status} ${reason}`)
      }
    }
  }
})

test('a notification that an operator stopped names the hold, its reason and its end', () => {
  const hold = { name: 'no-marketing', reason: 'wrong prices' }
  const { text, verdict, reason, next } = explained(waits('held'), { hold })
  assert.equal(
    text,
    'Waits until 2026-11-22 11:00:00Z: the hold no-marketing of an operator stops it until then (wrong prices).',
  )
  assert.deepEqual([verdict, reason, next], ['waits', 'held', ['cancel']])
  assert.equal(
    explained(waits('held')).text,
    'Waits until 2026-11-22 11:00:00Z: an operator has stopped it until then.',
  )
})

test('an account that an operator took out is named with its end', () => {
  const held = { ...account('a', now + hour), status: 'held' as const, outBecause: 'hold' as const }
  assert.match(
    explained(notification({ status: 'queued' }), { accounts: [held, account('b')] }).text,
    /1 of 2 accounts for email is out: a until 2026-11-22 11:00:00Z by an operator/,
  )
})
