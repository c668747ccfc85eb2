/**
 * Long windows of accounts through kills: the calls before a kill still count after it. The sandbox, which is not
 * killed, counts every rolling window by itself; 40 in 10 s are exactly as many as the account may be called.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite } from '../child.ts'
import { openSandbox } from './sandbox-process.ts'

const max = 40
const windowMs = 10_000
const accounts = 2
const concurrency = 2
const messages = 120

test('killed and stopped again and again, no account has more than 40 calls in any 10 s', async (t) => {
  const sandbox = await openSandbox(t)
  const list = Array.from({ length: accounts }, (_, index) => ({
    id: `a${index}`,
    url: sandbox.url,
    secret: 'x',
    sid: `AC${String(index).padStart(32, '0')}`,
    from: '+15550100200',
    rate: `${max}/${windowMs / 1_000}s`,
    concurrency,
    // This tests what a restart forgets, not the time for which a busy machine delays a call.
    margin: '200ms',
  }))
  const pools = { sms: { provider: 'twilio', accounts: list, breaker: { of: 1000 } } }
  const site = await createSite(t, { policy: { version: 1, limits: [] }, config: { pools } })
  await site.start()
  for (let done = 0; done < messages; done += 60) {
    const recipients = Array.from({ length: 60 }, (_, index) => ({
      id: `p${done + index}`,
      phone: `+3932${String(done + index).padStart(8, '0')}`,
    }))
    const body = { recipients, channel: 'sms', content: { text: 'Hello' } }
    assert.equal((await site.call('POST', '/api/v1/notifications/batch', body)).status, 202)
  }
  const called = async (): Promise<number> => (await sandbox.calls()).length
  const delivered = async (): Promise<number> =>
    Number(
      /^sluice_notifications\{status="delivered"\} (\d+)$/m.exec(
        (await site.call('GET', '/metrics')).text,
      )?.[1],
    )
  async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
    const from = performance.now()
    while (!(await holds())) {
      if (performance.now() - from > 30_000) assert.fail(`not ${what} after 30 s: ${await called()} calls`)
      await sleep(5)
    }
  }

  let kills = 0
  async function restart(how: 'kill' | 'terminate'): Promise<void> {
    await site[how]()
    if (how === 'kill') kills += 1
    await site.start()
  }
  // In the middle of the first window, twice; when it is full; and once more cleanly.
  for (const calls of [20, 50]) {
    await until(`${calls} calls`, async () => (await called()) >= calls)
    await restart('kill')
  }
  await sleep(1_000)
  await restart('kill')
  await restart('terminate')
  // Calls reserved ahead of a kill are lost for this window: two of each account.
  const least = accounts * max - kills * accounts * 2
  // A busy machine is given the whole window.
  const [earliest] = await sandbox.calls()
  while ((await called()) < least && Date.now() < earliest!.at + windowMs) await sleep(5)
  const first = await called()
  assert.ok(first >= least - accounts, `of the first window ${first} were used`)
  // And while the places of the first window come free.
  const after = Math.min(first + 5, messages)
  await until('the second window', async () => (await called()) >= after)
  await restart('kill')
  await until('delivered', async () => (await delivered()) === messages)

  const calls = await sandbox.calls()
  t.diagnostic(
    `${calls.length} calls, ${first} before the first window had passed; ${kills} kills, one clean restart`,
  )
  assert.ok(calls.length <= messages + kills * accounts * concurrency, 'no more doubles than were in flight')
  const windows = await sandbox.windows('10s')
  assert.equal(windows.length, accounts)
  for (const { account, most } of windows)
    assert.ok(most <= max, `${account} was called ${most} times in 10 s`)
})
