/**
 * The first calls of a process, while others keep every core busy: what arrives at a sink in another process is counted
 * window by window, as a provider would. One start is tried here; the long proof is a command of its own:
 *
 *     SLUICE_COLD_STARTS=20 npm test -- --only cold-start
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, startSink } from '../child.ts'
import { overfull, slackMs } from './windows.ts'

const starts = Number(process.env.SLUICE_COLD_STARTS ?? 1)
const perStart = 60
const accounts = {
  twenty: { rates: ['20/s'], limits: [{ max: 20, windowMs: 1_000 }] },
  forty: { rates: ['40/s'], limits: [{ max: 40, windowMs: 1_000 }] },
} as const
const patienceMs = 60_000

/** Programs that want a whole core each, at the priority of everybody. */
function keepBusy(t: TestContext): void {
  const busy: ChildProcess[] = Array.from({ length: availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
  )
  t.after(() => {
    for (const child of busy) child.kill('SIGKILL')
  })
}

for (const busy of [true, false]) {
  test(`a cold process keeps the rate of its accounts from the first call on, ${busy ? 'with every core busy' : 'with nobody beside it'}`, async (t) => {
    if (busy) keepBusy(t)
    const sink = await startSink(t, 'http')
    const over: string[] = []
    for (let start = 0; start < starts; start += 1) {
      const before = (await sink.dump()).requests.length
      const site = await createSite(t, {
        policy: { version: 1, limits: [] },
        config: {
          pools: {
            webhook: {
              provider: 'webhook',
              accounts: Object.entries(accounts).map(([id, { rates }]) => ({
                id,
                url: `${sink.url}/${id}`,
                rate: rates,
              })),
            },
          },
        },
      })
      await site.start()
      const body = { channel: 'webhook', content: { text: 'message' } }
      const recipients = Array.from({ length: perStart * 2 }, (_, index) => ({ id: `user-${index}` }))
      for (const part of [recipients.slice(0, 100), recipients.slice(100)]) {
        const answer = await site.call('POST', '/api/v1/notifications/batch', { ...body, recipients: part })
        assert.equal(answer.status, 202, answer.text)
      }
      const end = performance.now() + patienceMs
      let requests = (await sink.dump()).requests.slice(before)
      while (requests.length < perStart * 2 && performance.now() < end) {
        await sleep(100)
        requests = (await sink.dump()).requests.slice(before)
      }
      assert.equal(requests.length, perStart * 2)
      for (const [id, { limits }] of Object.entries(accounts)) {
        const instants = requests.filter(({ path }) => path === `/${id}`).map(({ at }) => at)
        for (const limit of limits) {
          const count = overfull(instants, limit)
          t.diagnostic(
            `start ${start}, ${id}: ${count} windows over, ${slackMs(instants, limit).toFixed(1)} ms of the margin left`,
          )
          if (count > 0) over.push(`start ${start}: ${count} of ${id}`)
        }
      }
      await site.kill()
    }
    assert.deepEqual(over, [])
  })
}
