/**
 * The wall clock of a gateway is set by an hour while it sends, forward or back. What arrives at a sink in another
 * process, on a clock of its own, shows that sending goes on and that no window of an account or a recipient is over;
 * the same when the process is restarted after the step.
 */
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { createSite, startSink } from '../child.ts'
import { overfull } from './windows.ts'

const accountLimits = [
  { max: 20, windowMs: 1_000 },
  { max: 60, windowMs: 6_000 },
]
const recipientLimits = [
  { max: 3, windowMs: 2_000 },
  { max: 8, windowMs: 8_000 },
]
const recipients = Array.from({ length: 12 }, (_, index) => `person-${index}`)
const messagesEach = 20
const hourS = 3_600
/** Until something arrives after the step, and after the restart. */
const silenceMsMax = 5_000
const now = (): number => performance.timeOrigin + performance.now()

async function setUp(t: TestContext) {
  const clockFile = join(tmpdir(), `sluice-clock-${process.pid}-${Math.floor(performance.now())}`)
  const setClock = (seconds: number): void =>
    writeFileSync(clockFile, `${seconds < 0 ? '' : '+'}${seconds}s\n`)
  setClock(0)
  t.after(() => rmSync(clockFile, { force: true }))
  const sink = await startSink(t, 'http')
  const site = await createSite(t, {
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', max: ['3/2s', '8/8s'], over: 'delay' }],
    },
    config: {
      log: { level: 'warn' },
      pools: {
        webhook: {
          provider: 'webhook',
          accounts: [{ id: 'hook', url: `${sink.url}/in`, rate: ['20/s', '60/6s'] }],
        },
      },
    },
    env: {
      LD_PRELOAD: process.env.SLUICE_TEST_FAKETIME ?? '',
      FAKETIME_TIMESTAMP_FILE: clockFile,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
  })
  await site.start()
  const post = async (index: number): Promise<void> => {
    for (const id of recipients) {
      const body = { channel: 'webhook', recipient: { id }, content: { text: `message ${index}` } }
      const answer = await site.call('POST', '/api/v1/notifications', body)
      assert.equal(answer.status, 202, answer.text)
    }
  }
  const arrivals = async () =>
    (await sink.dump()).requests.map(({ at, body }) => ({
      at,
      recipient: (JSON.parse(body) as { recipient: string }).recipient,
    }))
  return { site, setClock, post, arrivals }
}

function check(arrived: readonly { readonly at: number; readonly recipient: string }[]): void {
  const instants = arrived.map(({ at }) => at)
  for (const limit of accountLimits)
    assert.equal(
      overfull(instants, limit),
      0,
      `no ${limit.windowMs} ms of the account has more than ${limit.max}`,
    )
  for (const id of recipients) {
    const theirs = arrived.filter(({ recipient }) => recipient === id).map(({ at }) => at)
    for (const limit of recipientLimits)
      assert.equal(overfull(theirs, limit), 0, `no ${limit.windowMs} ms of ${id} has more than ${limit.max}`)
  }
}

/** Both at once, since each mostly waits. */
describe('a wall clock that is set while the gateway sends', { concurrency: 2 }, () => {
  for (const [what, seconds] of [
    ['forward', hourS],
    ['back', -hourS],
  ] as const) {
    test(
      `${what} by an hour, neither holds what waits nor lets a window run over`,
      needs('faketime'),
      async (t) => {
        const { site, setClock, post, arrivals } = await setUp(t)
        for (let index = 0; index < messagesEach; index += 1) await post(index)
        await sleep(1_500)
        setClock(seconds)
        const steppedAt = now()
        await sleep(silenceMsMax)
        const afterStep = (await arrivals()).filter(({ at }) => at > steppedAt)
        assert.ok(afterStep.length > 0, 'something arrived after the step')
        t.diagnostic(
          `${afterStep.length} arrived in the ${silenceMsMax} ms after the step, the first ${Math.round(afterStep[0]!.at - steppedAt)} ms after it`,
        )

        // Instants shown to users follow the new wall clock, and a token issued now is valid now.
        const late = { channel: 'webhook', recipient: { id: 'late' }, content: { text: 'late' } }
        const { json } = await site.call('POST', '/api/v1/notifications', late)
        const { notificationId } = json<{ notificationId: string }>()
        const shown = await site.call('GET', `/api/v1/notifications/${notificationId}`)
        const createdAt = Date.parse(shown.json<{ createdAt: string }>().createdAt)
        assert.ok(
          Math.abs(createdAt - (Date.now() + seconds * 1_000)) < 10_000,
          'createdAt is by the wall clock',
        )

        assert.equal((await site.terminate()).code, 0)
        const restartedAt = now()
        await site.start()
        const readyAt = now()
        await sleep(silenceMsMax)
        const all = await arrivals()
        const afterRestart = all.filter(({ at }) => at > restartedAt)
        assert.ok(
          afterRestart.some(({ at }) => at < readyAt + silenceMsMax),
          'something arrived after the restart',
        )
        t.diagnostic(
          `${afterRestart.length} arrived after the restart, the first ${Math.round(afterRestart[0]!.at - restartedAt)} ms after it`,
        )
        check(all)
        assert.match(site.log(), /the wall clock stepped/)
      },
    )
  }
})
