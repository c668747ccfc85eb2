/** The verdict of a reservation says why a notification waits, and that it does not where nothing delays it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reservedVerdict } from '../../src/admission/candidate.ts'

const now = 1_000_000

type Found = Parameters<typeof reservedVerdict>[0]['reservation']

function reservation(at: number, firstAt = at): Found {
  return {
    allowed: false,
    held: true,
    fired: false,
    moved: false,
    at,
    firstAt,
    retryAfterMs: at - now,
    limit: undefined,
    refusedBy: [],
    evicted: [],
    blockedUntil: 0,
    rules: [],
  }
}

function verdictOf(found: Found, notBefore: number) {
  return reservedVerdict({
    policyVersion: 'p1',
    now,
    notBefore,
    reservation: found,
    forbiddenHours: undefined,
  })
}

test('limits whose clock is ahead delay nothing', () => {
  const { status, dueAt, decision } = verdictOf(reservation(now + 125), now - 3)
  assert.deepEqual([status, dueAt], ['queued', now + 125])
  assert.deepEqual([decision?.outcome, decision?.reason], ['send', undefined])
})

test('an instant that was asked for is a delay, whatever the clock of the limits shows', () => {
  const { status, decision } = verdictOf(reservation(now + 125), now + 125)
  assert.equal(status, 'scheduled')
  assert.deepEqual([decision?.outcome, decision?.reason], ['delay', 'send_at'])
})

test('an instant behind the first that hours admit is a delay', () => {
  const { status, decision } = verdictOf(reservation(now + 125, now), now - 3)
  assert.equal(status, 'scheduled')
  assert.equal(decision?.outcome, 'delay')
})
