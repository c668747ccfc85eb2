/** The backlog's counters, against a full count after random changes, and its answers, against sums by hand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type BacklogCell,
  type BacklogQuery,
  backlogKeys,
  backlogRowOf,
  departureMinutes,
  groupsMax,
  spans,
} from '../../src/backlog-cell.ts'
import { type Backlog, createBacklog } from '../../src/ledger/backlog.ts'
import { backlogReport, hourSeconds } from '../../src/ledger/backlog-report.ts'
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

const nowSecond = Math.floor(now / 1_000)

test('a report over what waits for a month walks the seconds of the coming day alone', () => {
  const stepSeconds = 10
  const perHour = hourSeconds / stepSeconds
  const walked = new Set<number>()
  /** Notes each second that is read. */
  class Watched extends Map<number, number> {
    override *[Symbol.iterator](): MapIterator<[number, number]> {
      for (const second of super.keys()) {
        walked.add(second)
        yield [second, this.get(second)!]
      }
      return undefined
    }
  }
  const hours = new Map(
    Array.from({ length: 30 * 24 }, (_, index) => {
      const hour = nowSecond / hourSeconds + index
      const seconds = Array.from({ length: perHour }, (_, at): [number, number] => [
        hour * hourSeconds + at * stepSeconds,
        1,
      ])
      return [hour, { count: perHour, seconds: new Watched(seconds) }]
    }),
  )
  walked.clear()
  const cell: BacklogCell = {
    tenant: 'a',
    channel: 'email',
    category: 'c',
    kind: 'waiting',
    reason: 'send_at',
  }
  const count = hours.size * perHour
  const query = { by: 'reason', now, capacityOf: () => undefined } as const
  const { groups, departures } = backlogReport([{ cell, count, hours }], query)
  assert.ok(walked.size <= 26 * perHour, `${walked.size} seconds were walked`)
  assert.deepEqual(
    groups.map((group) => [group.key, group.count, group.lastAt]),
    [
      ['send_at', count - 1, (nowSecond + 30 * 86_400 - stepSeconds) * 1_000],
      ['provider_capacity', 1, null],
    ],
  )
  assert.deepEqual(groups[0]!.leaving, { '1m': 6, '10m': 54, '1h': 300, '1d': 8_280, later: count - 8_641 })
  assert.equal(
    departures.reduce((sum, each) => sum + each, 0),
    8_639,
  )
})

test('a report equals the sums of every second by hand, also where one meets the bound of a span', (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(chance() * from.length)]!
  const bounds = [0, ...Object.values(spans), departureMinutes * 60, -hourSeconds].flatMap((at) => [
    at - 1,
    at,
    at + 1,
  ])
  for (let run = 0; run < 100; run += 1) {
    const at = now + Math.floor(chance() * 2 * hour)
    const second = Math.floor(at / 1_000)
    const rows = Array.from({ length: 40 }, (_, index) => ({
      tenant: pick(['a', 'b']),
      channel: pick<Channel>(['email', 'sms']),
      category: 'c',
      kind: pick(['waiting', 'waiting', 'queued'] as const),
      reason: pick<Reason>(['digest', 'retry', 'send_at']),
      second: second + (chance() < 0.5 ? pick(bounds) : Math.floor((chance() - 0.3) * 3 * 86_400)),
      count: 1 + Math.floor(chance() * 3),
      example: String(index),
    }))
    const { groups, departures } = createBacklog(rows).report({
      by: 'reason',
      now: at,
      capacityOf: () => undefined,
    })
    const byHand = new Map<string, { count: number; due: number; last: number; leaving: number[] }>()
    const leftAt = new Array<number>(departureMinutes).fill(0)
    for (const { kind, reason, second: due, count } of rows) {
      const isDue = kind === 'queued' || (due <= second && reason !== 'digest')
      const key = isDue ? 'provider_capacity' : reason
      const sum = byHand.get(key) ?? { count: 0, due: 0, last: 0, leaving: [0, 0, 0, 0, 0] }
      byHand.set(key, sum)
      sum.count += count
      const span = Object.values(spans).findIndex((within) => due - second <= within)
      sum.leaving[isDue ? 0 : span === -1 ? 4 : span]! += count
      if (isDue) sum.due = sum.due === 0 ? due : Math.min(sum.due, due)
      else sum.last = Math.max(sum.last, due)
      const minute = Math.floor((due - second) / 60)
      if (!isDue && minute >= 0 && minute < departureMinutes) leftAt[minute]! += count
    }
    assert.deepEqual(
      groups.map((group) => [
        group.key,
        group.count,
        group.oldestDueAt ?? 0,
        group.lastAt ?? 0,
        Object.values(group.leaving),
      ]),
      [...byHand]
        .sort(([, a], [, b]) => b.count - a.count)
        .map(([key, { count, due, last, leaving }]) => [key, count, due * 1_000, last * 1_000, leaving]),
    )
    assert.deepEqual(departures, leftAt)
  }
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

test('what was accepted undecided waits for the limits and not for an account, also in the sums of the metrics', () => {
  const [undecided, due] = [waiting({ status: 'queued' }), waiting({ status: 'queued' })]
  const events: Notification['timeline'] = [
    { at: now, status: 'accepted' },
    { at: now, status: 'queued', reason: 'state_unavailable' },
  ]
  const backlog = backlogOf({ ...undecided, undecided: true, timeline: events }, due)
  assert.deepEqual(
    report(backlog)
      .groups.map(({ key, count }) => [key, count])
      .sort(),
    [
      ['provider_capacity', 1],
      ['state_unavailable', 1],
    ],
  )
  assert.equal(report(backlog, { reason: 'state_unavailable' }).groups.length, 1)
  const sums = backlog.totals(now).waiting.map(({ reason, count }) => [reason, count])
  assert.deepEqual(sums.sort(), [
    ['provider_capacity', 1],
    ['state_unavailable', 1],
  ])
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
