/** The backlog's counters, against a full count after random changes, and its answers, against sums by hand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BacklogQuery, backlogKeys, backlogRowOf, groupsMax } from '../../src/backlog-cell.ts'
import { type Backlog, createBacklog } from '../../src/ledger/backlog.ts'
import type { Channel, Notification, Reason, Status } from '../../src/model.ts'
import { day, hour, minute, seeded, testSeed } from '../harness.ts'

const now = Date.UTC(2026, 10, 22, 10)

let serial = 0
function waiting(more: Partial<Notification> & { readonly reason?: Reason } = {}): Notification {
  const { reason = 'recipient_limit', status = 'scheduled', ...fields } = more
  serial += 1
  return {
    id: String(serial),
    tenant: 'acme',
    module: 'm',
    to: { id: 'u' },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    createdAt: now,
    fingerprint: 'f',
    dueAt: now + hour,
    decision: { outcome: 'delay', reason, policyVersion: 'p', rules: [] },
    attempts: 0,
    ...fields,
    status,
    timeline: [
      { at: now, status: 'accepted' },
      { at: now, status, ...(status === 'queued' ? {} : { reason }) },
    ],
  }
}

const report = (backlog: Backlog, query: Partial<BacklogQuery> = {}) =>
  backlog.report({ by: 'reason', now, capacityOf: () => undefined, ...query })

function backlogOf(...notifications: readonly Notification[]): Backlog {
  const backlog = createBacklog()
  for (const each of notifications) backlog.count(each, 1)
  return backlog
}

const changes = Number(process.env.SLUICE_CHANGES ?? 20_000)

test(`counts equal a full count after ${changes} random changes`, (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(chance() * from.length)]!
  const backlog = createBacklog()
  const live: Notification[] = []
  const fresh = (id?: string): Notification => ({
    ...waiting({
      tenant: pick(['a', 'b', 'c']),
      channel: pick<Channel>(['email', 'sms']),
      status: pick<Status>(['scheduled', 'digesting', 'queued', 'dead', 'delivered']),
      reason: pick<Reason>(['recipient_limit', 'quiet_hours', 'retry', 'send_at', 'attempts_exhausted']),
      dueAt: now + Math.floor((chance() - 0.2) * 3 * day),
    }),
    ...(id === undefined ? {} : { id }),
  })
  for (let change = 0; change < changes; change += 1) {
    const index = Math.floor(chance() * live.length)
    if (live.length < 500 || chance() < 0.3) {
      const accepted = fresh()
      backlog.count(accepted, 1)
      live.push(accepted)
    } else {
      const before = live[index]!
      const after = fresh(before.id)
      backlog.count(after, 1)
      backlog.count(before, -1)
      if (after.status === 'delivered') live.splice(index, 1)
      else live[index] = after
    }
  }
  const rows = live.map(backlogRowOf).filter((row) => row !== undefined)
  const full = createBacklog(rows.map((row) => ({ ...row, count: 1 })))
  for (const by of backlogKeys) {
    for (const tenant of [undefined, 'a']) {
      const query = { by, ...(tenant === undefined ? {} : { tenant }) }
      const inOrder = ({ groups, departures }: ReturnType<typeof report>) => ({
        groups: [...groups].sort((a, b) => (a.key < b.key ? -1 : 1)),
        departures,
      })
      assert.deepEqual(inOrder(report(backlog, query)), inOrder(report(full, query)))
    }
  }
  const letters = (of: Backlog) =>
    of
      .deadLetters({})
      .map(({ example: _, ...group }) => JSON.stringify(group))
      .sort()
  assert.deepEqual(letters(backlog), letters(full))
  for (const each of live) backlog.count(each, -1)
  assert.deepEqual([report(backlog).groups, backlog.deadLetters({})], [[], []])
})

test('a group of booked instants is gone at the last of them, to the second, and says so', () => {
  const seconds = [1, 61, 3_599, 90_000]
  const backlog = backlogOf(...seconds.map((each) => waiting({ dueAt: now + each * 1_000 })))
  const { groups, departures } = report(backlog)
  assert.deepEqual(groups, [
    {
      key: 'recipient_limit',
      count: 4,
      oldestDueAt: null,
      nextAt: now + 1_000,
      lastAt: now + 90_000_000,
      emptyAt: now + 90_000_000,
      emptyIs: 'booked',
      leaving: { '1m': 1, '10m': 1, '1h': 1, '1d': 0, later: 1 },
    },
  ])
  assert.deepEqual([departures[0], departures[1], departures[59], departures.length], [1, 1, 1, 1_440])
  // The last one leaves the backlog: the group is gone with the one before.
  backlog.count(waiting({ dueAt: now + 90_000_000 }), -1)
  assert.equal(report(backlog).groups[0]!.emptyAt, now + 3_599_000)
})

test('notifications that are due wait for an account, and are gone when the accounts can have carried them', () => {
  const due = Array.from({ length: 100 }, () => waiting({ reason: 'quiet_hours', dueAt: now - minute }))
  const backlog = backlogOf(...due, waiting({ reason: 'quiet_hours', dueAt: now + minute }))
  const groups = (capacityOf: BacklogQuery['capacityOf']) => report(backlog, { capacityOf }).groups
  const [first, second] = groups(() => ({ from: now + 30_000, perSecond: 10 }))
  assert.deepEqual(
    [first!.key, first!.count, first!.oldestDueAt, first!.emptyAt, first!.emptyIs],
    ['provider_capacity', 100, now - minute, now + 40_000, 'estimate'],
  )
  assert.deepEqual([second!.key, second!.count, second!.emptyIs], ['quiet_hours', 1, 'booked'])
  const [never] = groups(() => undefined)
  assert.deepEqual([never!.emptyAt, never!.emptyIs], [null, 'never'])
})

test('an answer has at most 200 groups, and the rest are one group', () => {
  const backlog = backlogOf(
    ...Array.from({ length: 300 }, (_, index) =>
      waiting({ tenant: `t${index}`, dueAt: now + index * 1_000 }),
    ),
  )
  const { groups } = report(backlog, { by: 'tenant' })
  assert.equal(groups.length, groupsMax)
  assert.equal(
    groups.reduce((sum, { count }) => sum + count, 0),
    300,
  )
  assert.deepEqual(
    [groups.at(-1)!.key, groups.at(-1)!.count, groups.at(-1)!.lastAt],
    ['other', 101, now + 299_000],
  )
})

test('dead letters are grouped by cause and account, with the oldest and an example that is still there', () => {
  const letter = (at: number, account: string): Notification => {
    const base = waiting({ status: 'dead', reason: 'attempts_exhausted' })
    const death = {
      at,
      status: 'dead',
      reason: 'attempts_exhausted',
      provider: 'ses',
      account,
      detail: '500',
    } as const
    return { ...base, timeline: [base.timeline[0]!, death] }
  }
  const letters = [letter(now - hour, 'a'), letter(now - minute, 'a'), letter(now, 'b')]
  const backlog = backlogOf(...letters)
  const [first] = backlog.deadLetters({})
  assert.deepEqual(first, {
    cause: 'attempts_exhausted',
    channel: 'email',
    provider: 'ses',
    account: 'a',
    count: 2,
    oldestAt: now - hour,
    example: letters[1]!.id,
    answer: '500',
  })
  backlog.count(letters[1]!, -1)
  assert.equal(backlog.deadLetters({}).find(({ account }) => account === 'a')!.example, undefined)
  assert.deepEqual(backlog.deadLetters({ tenant: 'other' }), [])
})
