/** Notifications per user, channel and category: the default table, another one, and that the policy says the same. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { describe, it } from 'node:test'
import { parse } from 'yaml'
import {
  defaultNotificationTable,
  LimitsError,
  limit,
  memoryStore,
  NotificationRateLimiter,
  type NotificationRateLimiterOptions,
  type NotificationRule,
  parseWindows,
} from '../src/index.ts'

const start = Date.UTC(2026, 10, 21, 12)
const day = 86_400_000

function open(options: Omit<NotificationRateLimiterOptions, 'store'> = {}) {
  const world = { now: start }
  const limiter = new NotificationRateLimiter({ store: memoryStore({ now: () => world.now }), ...options })
  return { world, limiter }
}

describe('NotificationRateLimiter', () => {
  it('needs no options', async () => {
    const limiter = new NotificationRateLimiter()
    const ask = { userId: 'ada', channel: 'email', category: 'marketing' }
    assert.equal((await limiter.checkAndConsume(ask)).allowed, true)
  })

  it('admits 2 a day, 5 a week, 10 a month of marketing by email, and says which of them decides until when', async () => {
    const { limiter, world } = open()
    const ask = { userId: 'ada', channel: 'email', category: 'marketing' }
    assert.deepEqual(await limiter.checkAndConsume(ask), {
      allowed: true,
      remaining: 1,
      resetAt: start + day,
      rule: 'all',
      limit: 'marketing-email',
    })
    assert.equal((await limiter.check(ask)).remaining, 1)
    assert.equal((await limiter.checkAndConsume(ask)).remaining, 0)
    assert.deepEqual(await limiter.checkAndConsume(ask), {
      allowed: false,
      remaining: 0,
      resetAt: start + day,
      rule: '2/day',
      limit: 'marketing-email',
    })
    const sent: number[] = [start, start]
    for (; world.now < start + 40 * day; world.now += day / 4)
      if ((await limiter.checkAndConsume(ask)).allowed) sent.push(world.now)
    for (const [max, days] of [
      [2, 1],
      [5, 7],
      [10, 30],
    ] as const) {
      const most = Math.max(
        ...sent.map((from) => sent.filter((at) => at >= from && at < from + days * day).length),
      )
      assert.equal(most, max, `${most} in ${days} days`)
    }
    assert.equal((await limiter.checkAndConsume({ ...ask, channel: 'sms' })).allowed, true)
    assert.equal((await limiter.checkAndConsume({ ...ask, userId: 'bob' })).allowed, true)
    await limiter.reset('ada')
    assert.equal((await limiter.checkAndConsume(ask)).remaining, 1)
  })

  it('gives 5 a day to a channel and category that no row names, each by itself', async () => {
    const { limiter } = open()
    for (const category of ['news', 'marketing', 'billing']) {
      const ask = { userId: 'ada', channel: 'telegram', category }
      for (let count = 0; count < 5; count += 1)
        assert.equal((await limiter.checkAndConsume(ask)).allowed, true)
      const refused = await limiter.checkAndConsume(ask)
      assert.deepEqual([refused.allowed, refused.rule, refused.limit], [false, '5/day', 'other'])
    }
  })

  it('counts activity per author and per channel, and takes nothing where one of the two refuses', async () => {
    const { limiter } = open()
    const by = (actor: string, channel = 'push') =>
      limiter.checkAndConsume({ userId: 'ada', channel, category: 'activity', actor })
    for (let count = 0; count < 3; count += 1) assert.equal((await by('7')).allowed, true)
    assert.deepEqual((await by('7')).limit, 'activity-per-author')
    assert.equal((await by('7', 'email')).limit, 'activity-per-author')
    assert.equal((await by('8')).remaining, 1)
    assert.equal((await by('9')).remaining, 0)
    assert.equal((await by('9')).limit, 'activity')
    assert.equal((await by('9', 'email')).allowed, true)
  })

  it('names the window that frees last where several refuse', async () => {
    const table: NotificationRule[] = [{ name: 'mail', windows: '1/h, 1/day' }]
    const { limiter } = open({ table })
    const ask = { userId: 'ada', channel: 'email', category: 'news' }
    assert.equal((await limiter.checkAndConsume(ask)).rule, 'all')
    const refused = await limiter.checkAndConsume(ask)
    assert.deepEqual([refused.rule, refused.resetAt], ['1/day', start + day])
  })

  it('counts a notification once, however often it is asked for by id', async () => {
    const { limiter } = open()
    const ask = { userId: 'ada', channel: 'sms', category: 'marketing', id: 'n-1' }
    for (let count = 0; count < 3; count += 1)
      assert.equal((await limiter.checkAndConsume(ask)).allowed, true)
    assert.equal((await limiter.checkAndConsume({ ...ask, id: 'n-2' })).allowed, false)
  })

  it('takes another table, limits over everything, and limits nothing that no row matches', async () => {
    const table: NotificationRule[] = [
      { name: 'never', category: 'spam', windows: '0/day' },
      { name: 'mail', channel: 'email', windows: ['3/h'] },
      { name: 'any', windows: '4/h' },
    ]
    const { limiter, world } = open({ table, everything: [limit('gap', [], { minGap: '1s' })] })
    const take = (channel: string, category: string) =>
      limiter.checkAndConsume({ userId: 'ada', channel, category })
    const never = await take('push', 'spam')
    assert.deepEqual(
      [never.allowed, never.rule, never.limit, never.resetAt],
      [false, '0/day', 'never', Number.POSITIVE_INFINITY],
    )
    assert.equal((await take('email', 'news')).allowed, true)
    const tooSoon = await take('email', 'news')
    assert.deepEqual([tooSoon.rule, tooSoon.limit], ['1/1s', 'gap'])
    world.now += 1_000
    assert.equal((await take('push', 'news')).allowed, true)
    world.now += 1_000
    const mail = await take('email', 'news')
    assert.deepEqual([mail.allowed, mail.remaining], [true, 0], 'the gap has no place left')
    const free = open({ table: [{ name: 'mail', channel: 'email', windows: '1/h' }] }).limiter
    assert.deepEqual(await free.checkAndConsume({ userId: 'ada', channel: 'push', category: 'x' }), {
      allowed: true,
      remaining: Number.POSITIVE_INFINITY,
      resetAt: start,
      rule: 'all',
      limit: undefined,
    })
  })

  it('refuses tables and asks that make no sense', async () => {
    const row = { name: 'a', windows: '1/h' }
    const wrong: [unknown, string, RegExp][] = [
      [[row, row], 'INVALID_RULES', /'a'/],
      [[{ ...row, windows: '-1/h' }], 'INVALID_WINDOW', /'a'/],
      [[{ ...row, windows: [] }], 'INVALID_LIMIT', /no window/],
      [[{ windows: '1/h' }], 'INVALID_LIMIT', /name/],
      [[{ ...row, chanel: 'sms' }], 'INVALID_RULES', /chanel/],
      [[{ ...row, channel: '' }], 'INVALID_RULES', /texts/],
      [[{ ...row, per: ['user'] }], 'INVALID_RULES', /per/],
      [[{ ...row, otherwise: true, channel: 'sms' }], 'INVALID_RULES', /no other row/],
      [[{ ...row, otherwise: 1 }], 'INVALID_RULES', /otherwise/],
      [[null], 'INVALID_RULES', /table\[0\]/],
      [{}, 'INVALID_RULES', /list/],
    ]
    for (const [table, code, reason] of wrong) {
      assert.throws(
        () => new NotificationRateLimiter({ table: table as NotificationRule[] }),
        (error) => error instanceof LimitsError && error.code === code && reason.test(error.message),
        JSON.stringify(table),
      )
    }
    const { limiter } = open()
    const ask = { userId: 'ada', channel: 'email', category: 'marketing' }
    for (const everything of [5, [{}], [null]]) {
      assert.throws(
        () => new NotificationRateLimiter({ everything } as never),
        (error) => error instanceof LimitsError && error.code === 'INVALID_RULES',
      )
    }
    for (const part of [{ userId: '' }, { channel: '' }, { category: undefined }, { actor: 7 }]) {
      await assert.rejects(
        limiter.checkAndConsume({ ...ask, ...part } as typeof ask),
        (error) => error instanceof LimitsError && error.code === 'INVALID_ARGUMENT',
        JSON.stringify(part),
      )
    }
  })
})

interface PolicyLimit {
  readonly name: string
  readonly for: 'any' | 'otherwise' | { readonly category?: string; readonly channel?: string }
  readonly per?: readonly string[]
  readonly max: readonly string[]
}

describe('the default table', () => {
  it('is that of the gateway’s default policy, which has one limit more: on a person’s whole day', async () => {
    const file = new URL('../../gateway/policy/default.yaml', import.meta.url)
    const { limits } = parse(await readFile(file, 'utf8')) as { limits: PolicyLimit[] }
    const asRow = (one: PolicyLimit): object => ({
      name: one.name,
      ...(one.for === 'otherwise' ? { otherwise: true } : (one.for as object)),
      ...(one.per === undefined ? {} : { per: one.per.filter((field) => field !== 'recipient') }),
      windows: parseWindows(one.max),
    })
    assert.deepEqual(
      limits.filter((one) => one.for !== 'any').map(asRow),
      defaultNotificationTable.map((row) => ({ ...row, windows: parseWindows(row.windows) })),
    )
    assert.deepEqual(
      limits.filter((one) => one.for === 'any').map(({ name }) => name),
      ['everything'],
    )
  })
})
