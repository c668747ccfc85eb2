/**
 * A gateway that is killed in the middle of what providers do to it. On the other side stands `sluice sandbox`, a
 * process that is not killed, speaks Twilio and counts with code of its own; each recipient gets one message, so that the
 * number tells whose it was. Everything that is asserted is from there or from the record after the restart.
 */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, type Site } from '../child.ts'
import { openSandbox, type SandboxProcess } from './sandbox-process.ts'

/** The rate of each account, calls per second. */
const rate = 20
const sidOf = (index: number): string => `AC${String(index).padStart(32, '0')}`

/** On a busy machine an answer may come late: the outcome of a call that is cut off is unknown, and it is not delivered. */
const callTimeout = '20s'

interface Account {
  readonly id: string
  readonly status: string
  readonly blockedUntil: string | null
}

interface Setup {
  readonly accounts: number
  readonly pool?: object
  /** The concurrency of each account. @defaultValue 1: a call after a 429 was not on its way when the 429 came */
  readonly concurrency?: number
}

interface Rig {
  readonly site: Site
  readonly sandbox: SandboxProcess
  post(count: number, priority?: string): Promise<void>
  accounts(): Promise<readonly Account[]>
  /** Waits until it is so, at most a minute. */
  until(what: string, holds: () => Promise<boolean>): Promise<void>
  counts(): Promise<Readonly<Record<string, number>>>
  deadLetters(): Promise<Readonly<Record<string, number>>>
  /** Kills and starts again. */
  restart(): Promise<void>
  /** Checks the invariants that hold in every scenario. */
  check(inFlightMax: number): Promise<void>
}

async function setUp(t: TestContext, { accounts, pool, concurrency = 1 }: Setup): Promise<Rig> {
  const sandbox = await openSandbox(t)
  const list = Array.from({ length: accounts }, (_, index) => ({
    id: `a${index}`,
    url: sandbox.url,
    secret: 'canary-7f3a',
    sid: sidOf(index),
    from: '+15550100200',
    rate: `${rate}/s`,
    concurrency,
  }))
  const site = await createSite(t, {
    policy: { version: 1, limits: [] },
    config: { pools: { sms: { provider: 'twilio', timeout: callTimeout, accounts: list, ...pool } } },
  })
  await site.start()
  let serial = 0

  async function get<T>(path: string): Promise<T> {
    return (await site.call('GET', path)).json<T>()
  }
  const rig: Rig = {
    site,
    sandbox,
    async post(count, priority = 'normal') {
      for (let done = 0; done < count; done += 100) {
        const recipients = Array.from({ length: Math.min(100, count - done) }, () => {
          serial += 1
          return { id: `p${serial}`, phone: `+3932${String(serial).padStart(8, '0')}` }
        })
        const body: object = { recipients, channel: 'sms', priority, content: { text: 'Hello' } }
        assert.equal((await site.call('POST', '/api/v1/notifications/batch', body)).status, 202)
      }
    },
    accounts: async () =>
      (await get<{ pools: { channel: string; accounts: Account[] }[] }>('/api/v1/pools')).pools.find(
        ({ channel }) => channel === 'sms',
      )!.accounts,
    async until(what, holds) {
      const from = performance.now()
      while (!(await holds())) {
        if (performance.now() - from > 60_000)
          assert.fail(
            `not ${what} after a minute: ${JSON.stringify([await rig.counts(), await rig.deadLetters()])}`,
          )
        await sleep(20)
      }
    },
    async counts() {
      const { text } = await site.call('GET', '/metrics')
      return Object.fromEntries(
        [...text.matchAll(/^sluice_notifications\{status="(\w+)"\} (\d+)$/gm)].map(([, status, count]) => [
          status!,
          Number(count),
        ]),
      )
    },
    async deadLetters() {
      const causes: Record<string, number> = {}
      for (let cursor = ''; ; ) {
        const page = await get<{
          items: { timeline: { status: string; reason?: string }[] }[]
          nextCursor: string | null
        }>(`/api/v1/dead-letters?limit=100${cursor}`)
        for (const { timeline } of page.items) {
          const cause = timeline.at(-1)?.reason ?? ''
          causes[cause] = (causes[cause] ?? 0) + 1
        }
        if (page.nextCursor === null) return causes
        cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`
      }
    },
    async restart() {
      await site.kill()
      await site.start()
    },
    async check(inFlightMax) {
      const counts = await rig.counts()
      const known = Object.values(counts).reduce((sum, count) => sum + count, 0)
      assert.equal(known, serial, 'everything that was accepted is on record')
      const arrived = (await sandbox.calls()).filter((call) => call.arrived)
      const recipients = new Set(arrived.map(({ message }) => message.to.phone))
      const { outcome_unknown: unknown = 0 } = await rig.deadLetters()
      assert.equal((counts.delivered ?? 0) + unknown, serial, 'nothing else is left of it')
      assert.ok(recipients.size >= (counts.delivered ?? 0), 'what is delivered has arrived')
      const doubles = arrived.length - recipients.size
      t.diagnostic(`${doubles} doubles, ${unknown} outcomes unknown, of ${serial}`)
      assert.ok(doubles <= inFlightMax, `${doubles} doubles, and at most ${inFlightMax} were in flight`)
      for (const { account, most } of await sandbox.windows('1s'))
        assert.ok(most <= rate, `${account} was called ${most} times in a second`)
      assert.ok(!site.log().includes('canary-7f3a'), 'no secret in the log')
    },
  }
  return rig
}

const delivered = (rig: Rig, all: number) => async (): Promise<boolean> =>
  (await rig.counts()).delivered === all

/** Calls while a Retry-After ran; with each kill the answer to one call of an account may have been lost. */
async function calledWhileBlocked({ sandbox }: Rig, accounts: number, kills: number): Promise<void> {
  for (let index = 0; index < accounts; index += 1) {
    const { whileBlocked } = await sandbox.counters(sidOf(index))
    assert.ok(whileBlocked <= kills, `${sidOf(index)} was called ${whileBlocked} times while it was blocked`)
  }
}

/** Two at once: they wait for windows, cool-downs and Retry-After. */
describe('a gateway that is killed while providers fail', { concurrency: 2 }, () => {
  test('killed in a storm of 429: nothing is lost, no blocked account is called, no window is over', async (t) => {
    const accounts = 4
    const rig = await setUp(t, { accounts })
    await rig.sandbox.behave({ rates: [{ max: 8, windowMs: 1_000 }], retryAfter: '2' })
    await rig.post(120)
    await rig.until('blocked', async () => (await rig.accounts()).some(({ status }) => status === 'blocked'))
    await sleep(50)
    await rig.restart()
    await sleep(1_500)
    await rig.restart()
    await rig.sandbox.behave({})
    await rig.until('delivered', delivered(rig, 120))
    await calledWhileBlocked(rig, accounts, 2)
    await rig.check(accounts * 2)
  })

  test('killed among garbage in Retry-After, hangs and resets: what is unknown is marked and not repeated', async (t) => {
    const accounts = 4
    const rig = await setUp(t, {
      accounts,
      concurrency: 4,
      // Calls hang in this one.
      pool: { timeout: '1s', breaker: { of: 1000 }, retry: { base: '100ms' } },
    })
    await rig.sandbox.behave({
      rates: [{ max: 15, windowMs: 1_000 }],
      retryAfter: 'in a while',
      odds: { reset: 0.05, reset_after_accept: 0.1, hang_after_accept: 0.05, fail: 0.05 },
    })
    await rig.post(120)
    await rig.until('in trouble', async () => ((await rig.deadLetters()).outcome_unknown ?? 0) > 0)
    const recipients = (await rig.sandbox.calls())
      .filter(({ arrived }) => arrived)
      .map(({ message }) => message.to.phone)
    assert.equal(new Set(recipients).size, recipients.length, 'until the kill nothing arrived twice')
    await rig.restart()
    await rig.sandbox.behave({})
    await rig.until('settled', async () => {
      const { delivered = 0 } = await rig.counts()
      return delivered + ((await rig.deadLetters()).outcome_unknown ?? 0) === 120
    })
    await rig.check(accounts * 4)
  })

  test('killed while dead letters return from accounts that were all blocked', async (t) => {
    const accounts = 3
    const rig = await setUp(t, { accounts, pool: { shedAfter: '500ms' } })
    await rig.sandbox.behave({ rates: [{ max: 0, windowMs: 1_000 }], retryAfter: '6' })
    await rig.post(120)
    await rig.until('dead', async () => ((await rig.deadLetters()).pool_blocked ?? 0) === 120)
    const before = await rig.accounts()
    // The block of a call that has just been answered is still to be written.
    await sleep(200)
    await rig.restart()
    // A machine that is busy may take longer to start than the block lasts.
    for (const [index, { blockedUntil }] of (await rig.accounts()).entries()) {
      const until = before[index]!.blockedUntil
      if (until !== null && Date.parse(until) > Date.now() + 500) assert.equal(blockedUntil, until)
    }
    await rig.sandbox.behave({})
    await rig.until('returning', async () => ((await rig.counts()).delivered ?? 0) > 10)
    await rig.restart()
    await rig.until('delivered', delivered(rig, 120))
    await calledWhileBlocked(rig, accounts, 2)
    await rig.check(accounts)
  })

  test('killed while a probe is under way: it is made again, one at a time, and not before the cool-down', async (t) => {
    const rig = await setUp(t, {
      accounts: 2,
      pool: { breaker: { of: 4, coolDown: '1s' }, retry: { base: '100ms' } },
    })
    await rig.sandbox.behave({ odds: { fail: 1 } }, sidOf(0))
    await rig.post(60)
    const status = async (): Promise<string> => (await rig.accounts())[0]!.status
    await rig.until('open', async () => (await status()) === 'open')
    await rig.sandbox.behave({ latency: 2_000 }, sidOf(0))
    await rig.post(20)
    await rig.until('half open', async () => {
      if ((await status()) === 'open') await rig.post(2)
      return (await status()) === 'half_open'
    })
    await rig.site.kill()
    // The breaker is half open before its probe leaves, and the last bytes of the killed process may still be on their way.
    await rig.sandbox.calls()
    const deadAt = Date.now()
    await rig.site.start()
    assert.notEqual(await status(), 'healthy', 'an answer that is lost with the process says nothing')
    await rig.post(20)
    await rig.until('closed', async () => {
      if ((await status()) === 'open') await rig.post(2)
      return (await status()) === 'healthy'
    })
    const probes = (await rig.sandbox.calls()).filter(
      ({ account, at }) => account === sidOf(0) && at > deadAt,
    )
    if (probes.length > 1) assert.ok(probes[1]!.at - probes[0]!.at >= 1_990, 'the second waits for the first')
    await rig.sandbox.behave({}, sidOf(0))
    await rig.until('settled', async () => {
      const { delivered = 0, ...others } = await rig.counts()
      const rest = Object.values(others).reduce((sum, count) => sum + count, 0)
      return delivered > 0 && rest === 0
    })
    await rig.check(2)
  })

  test('killed during load shedding: shed notifications are on record and return', async (t) => {
    const accounts = 6
    const rig = await setUp(t, { accounts, pool: { shedAfter: '300ms' } })
    for (const index of [0, 1])
      await rig.sandbox.behave({ rates: [{ max: 1, windowMs: 60_000 }], retryAfter: '4' }, sidOf(index))
    await rig.post(200)
    await rig.until('shedding', async () => ((await rig.deadLetters()).shed ?? 0) > 0)
    await rig.restart()
    for (const index of [0, 1]) await rig.sandbox.behave({}, sidOf(index))
    await rig.until('delivered', delivered(rig, 200))
    await calledWhileBlocked(rig, accounts, 1)
    await rig.check(accounts)
  })
})
