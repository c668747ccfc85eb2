/**
 * `GET /backlog` says when each group that waits is gone. Notifications wait for recipient limits, quiet hours,
 * digests and a throttle queue, in virtual time; every answer on the way is held against the last arrival of each
 * group at the sandbox, and its counts against a full count of the record. `SLUICE_WAITING=100000` takes two
 * minutes of CPU, and more than the runner's five on a busy machine.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backlogRoutes } from '../../src/http/routes/backlog.ts'
import type { Draft, Notification } from '../../src/model.ts'
import { createSandbox } from '../../src/providers/sandbox/adapter.ts'
import { createHarness, hour, minute, second } from '../harness.ts'

const waiting = Number(process.env.SLUICE_WAITING ?? 2_000)
const policy = {
  version: 1,
  limits: [{ name: 'two-a-day', for: { category: 'product' }, max: ['2/day'], over: 'delay' }],
  digests: [{ name: 'activity', for: { category: 'activity' }, window: '2h', template: 'activity-digest' }],
  quietHours: { default: { from: '22:00', to: '08:00', channels: ['push'] }, spread: '10min' },
}
/** Zones in which it is night at the start. */
const zones = ['Europe/Rome', 'Europe/Athens', 'Asia/Kolkata', 'Asia/Tokyo']
const start = Date.UTC(2026, 10, 21, 21)
const batchMax = 500
/** Interval of the questions; the odd milliseconds keep them off the instants that are booked. */
const everyMs = 3 * hour + 37 * second + 123

interface Answer {
  readonly at: string
  readonly groups: readonly {
    readonly key: string
    readonly count: number
    readonly emptyAt: string
    readonly emptyIs: string
  }[]
}

test(`each of ${waiting} waiting notifications is gone by the second that the backlog names, and its group at that second`, async (t) => {
  const sandboxes: ReturnType<typeof createSandbox>[] = []
  const h = await createHarness({
    policy,
    start,
    config: {
      tenants: {
        default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000, waiting: 1_000_000 },
        slow: { rate: '20/min', modules: 'unlimited', queue: 1_000_000 },
      },
    },
    providers(clock) {
      sandboxes.push(createSandbox({ clock, keep: 4 * waiting }))
      return sandboxes
    },
  })
  t.after(() => h.stop())
  const [route] = backlogRoutes({
    backlog: h.gateway.backlog,
    overview: { standsStill: () => undefined } as never,
    requests: {} as never,
    pools: h.gateway.pools,
    clock: h.clock,
  })
  const ask = async (): Promise<Answer> =>
    (await route!.handle(
      { query: { by: 'reason' }, caller: { tenant: 'default', scopes: new Set(['sluice:admin']) } } as never,
      {} as never,
    )) as Answer

  const groupOf = new Map<string, string>()
  function note(posted: readonly Notification[]): void {
    for (const { id, status, decision } of posted)
      if (status === 'scheduled' || status === 'digesting') groupOf.set(id, decision.reason!)
  }
  async function postAll(
    count: number,
    draftOf: (n: number) => Partial<Draft>,
    tenant = 'default',
  ): Promise<void> {
    for (let from = 0; from < count; from += batchMax) {
      const drafts = Array.from({ length: Math.min(batchMax, count - from) }, (_, n) => draftOf(from + n))
      note(await h.postMany(drafts, { tenant, module: 'default' }))
    }
  }
  const email = (name: string, n: number) => ({ id: `${name}-${n}`, email: `${name}-${n}@example.com` })

  // Each recipient gets six: two leave at once, and two on each of the next two days.
  const limited = (waiting * 0.4) / 4
  for (let round = 0; round < 6; round += 1) {
    await postAll(limited, (n) => ({ to: email('limited', n), category: 'product' }))
    await h.runFor(minute)
  }
  // Five items to a recipient, in digests that open and close at different times.
  const digests = (waiting * 0.2) / 5 / 5
  for (let round = 0; round < 5; round += 1) {
    await postAll(5 * digests, (n) => ({ to: email(`digested-${round}`, n % digests), category: 'activity' }))
    await h.runFor(7 * minute + 11)
  }
  await postAll(waiting * 0.3, (n) => ({
    to: { id: `asleep-${n}`, pushToken: `token-${n}`, timeZone: zones[n % zones.length]! },
    channel: 'push',
    category: 'billing',
  }))
  // Twenty leave at once.
  await postAll(waiting * 0.1 + 20, (n) => ({ to: email('slow', n), category: 'billing' }), 'slow')

  const answers: Answer[] = [await ask()]
  await h.check()
  do {
    await h.runFor(everyMs)
    answers.push(await ask())
    await h.check()
  } while (answers.at(-1)!.groups.length > 0)

  assert.equal(groupOf.size, waiting)
  const last: Record<string, number> = {}
  for (const { at, message } of sandboxes[0]!.received({})) {
    const group =
      'category' in message && message.category === 'activity' ? 'digest' : groupOf.get(message.id)
    if (group !== undefined) last[group] = Math.max(last[group] ?? 0, at)
  }
  assert.deepEqual(Object.keys(last).sort(), ['digest', 'quiet_hours', 'recipient_limit', 'tenant_limit'])
  for (const { at, groups } of answers)
    for (const { key, emptyAt, count } of groups) {
      const offMs = last[key]! - Date.parse(emptyAt)
      assert.ok(
        Math.abs(offMs) <= second,
        `at ${at} ${count} of ${key} are gone ${offMs} ms after ${emptyAt}`,
      )
    }
  const [first] = answers
  t.diagnostic(`${answers.length} answers, the first: ${JSON.stringify(first!.groups)}`)
})
