/**
 * The first calls of a process, while others keep every core busy: what arrives at a sink in another process is counted
 * window by window, as a provider would. One start is tried here; the long proof is a command of its own:
 *
 *     SLUICE_COLD_STARTS=20 node --conditions=sluice-source --test packages/gateway/test/guarantees/cold-start.alone.long.test.ts
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, type Site, startSink } from '../child.ts'
import { overfull, slackMs } from './windows.ts'

const starts = Number(process.env.SLUICE_COLD_STARTS ?? 1)
const patienceMs = 60_000

/** An account with what it is given to carry: some more than fills its window, and for the short ones several. */
interface Tried {
  readonly channel: 'webhook' | 'telegram' | 'slack'
  readonly rate: string
  readonly limit: { readonly max: number; readonly windowMs: number }
  readonly messages: number
}

const tried: readonly Tried[] = [
  { channel: 'webhook', rate: '20/s', limit: { max: 20, windowMs: 1_000 }, messages: 70 },
  { channel: 'telegram', rate: '40/s', limit: { max: 40, windowMs: 1_000 }, messages: 140 },
  { channel: 'slack', rate: '50/5s', limit: { max: 50, windowMs: 5_000 }, messages: 70 },
]
const total = tried.reduce((sum, { messages }) => sum + messages, 0)

/** Programs that want a whole core each, at the priority of everybody. */
function keepBusy(t: TestContext): void {
  const busy: ChildProcess[] = Array.from({ length: availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
  )
  t.after(() => {
    for (const child of busy) child.kill('SIGKILL')
  })
}

const poolOf = (url: string, { channel, rate }: Tried) => ({
  [channel]: { provider: 'webhook', accounts: [{ id: channel, url: `${url}/${channel}`, rate }] },
})

/** Takes at most a hundred recipients a batch, as the route does. */
async function giveTo(site: Site, { channel, messages }: Tried): Promise<void> {
  for (let given = 0; given < messages; given += 100) {
    const recipients = Array.from({ length: Math.min(100, messages - given) }, (_, index) => ({
      id: `${channel}-${given + index}`,
      telegramChatId: '1',
      slackChannel: 'C1',
    }))
    const answer = await site.call('POST', '/api/v1/notifications/batch', {
      channel,
      content: { text: 'message' },
      recipients,
    })
    assert.equal(answer.status, 202, answer.text)
  }
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
        config: { pools: Object.assign({}, ...tried.map((each) => poolOf(sink.url, each))) },
      })
      await site.start()
      await Promise.all(tried.map((each) => giveTo(site, each)))
      const end = performance.now() + patienceMs
      let requests = (await sink.dump()).requests.slice(before)
      while (requests.length < total && performance.now() < end) {
        await sleep(100)
        requests = (await sink.dump()).requests.slice(before)
      }
      assert.equal(requests.length, total)
      for (const { channel, rate, limit } of tried) {
        const instants = requests.filter(({ path }) => path === `/${channel}`).map(({ at }) => at)
        const count = overfull(instants, limit)
        t.diagnostic(
          `start ${start}, ${rate}: ${count} windows over, ${slackMs(instants, limit).toFixed(1)} ms of the margin left`,
        )
        if (count > 0) over.push(`start ${start}: ${count} of ${rate}`)
      }
      await site.kill()
    }
    assert.deepEqual(over, [])
  })
}
