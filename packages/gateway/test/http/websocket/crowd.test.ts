/**
 * A tenant with many connections that publishes as much as it may, beside another tenant; small enough for a
 * test.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { said, startSockets } from './client.ts'

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index)

const medianOf = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!

test('200 connections that receive 180 messages each do not delay others, and the 201st is closed with 4429', async (t) => {
  const sockets = await startSockets({ connections: 200 })
  const crowd = await Promise.all(range(200).map(() => sockets.open({ tenant: 'noisy' })))
  await Promise.all(crowd.map((client) => client.subscribe('all')))
  const quiet = await sockets.open({ tenant: 'quiet' })
  await quiet.subscribe('mine')
  const above = await sockets.open({ tenant: 'noisy' })
  assert.equal((await above.closed).code, 4429)

  const heardByCrowd = (): number => crowd.reduce((sum, { heard }) => sum + heard.length, 0)
  let echoes = 0
  /**
   * Measures how long the quiet client waits for its own message, and how much the crowd receives meanwhile.
   */
  async function echo(): Promise<{ readonly tookMs: number; readonly meanwhile: number }> {
    const [since, before] = [performance.now(), heardByCrowd()]
    echoes += 1
    const answer = await quiet.ask({ type: 'publish', channel: 'mine', data: echoes })
    const tookMs = performance.now() - since
    assert.deepEqual(said(answer), { type: 'message', channel: 'mine', data: echoes })
    return { tookMs, meanwhile: heardByCrowd() - before }
  }

  // Compared with the quiet client alone, and with the time of the crowd, on any machine. The least of three
  // tries counts.
  const least = { share: Number.POSITIVE_INFINITY, meanwhile: Number.POSITIVE_INFINITY }
  for (const _ of range(3)) {
    const alone: number[] = []
    for (const _ of range(10)) alone.push((await echo()).tookMs)
    const among: { readonly tookMs: number; readonly meanwhile: number; readonly allMs: number }[] = []
    for (const burst of range(10)) {
      const since = performance.now()
      // 1,200 frames, and the one of the quiet client behind them.
      for (const n of range(6)) crowd[6 * burst + n]!.say({ type: 'publish', channel: 'all', data: n })
      const echoed = await echo()
      for (const client of crowd)
        for (const _ of range(6)) assert.equal((await client.next()).type, 'message')
      among.push({ ...echoed, allMs: performance.now() - since })
    }
    const tookMs = medianOf(among.map((each) => each.tookMs))
    const allMs = medianOf(among.map((each) => each.allMs))
    const meanwhile = medianOf(among.map((each) => each.meanwhile))
    least.share = Math.min(least.share, (tookMs - medianOf(alone)) / allMs)
    least.meanwhile = Math.min(least.meanwhile, meanwhile)
    t.diagnostic(
      `alone ${medianOf(alone).toFixed(2)} ms; behind the crowd ${tookMs.toFixed(2)} ms, after ${meanwhile} of its 1,200 frames, which take ${allMs.toFixed(2)} ms`,
    )
  }
  assert.ok(least.meanwhile <= 150, `${least.meanwhile} of 1,200 frames go before it`)
  assert.ok(least.share <= 0.6, `it waits for ${(100 * least.share).toFixed(0)} % of the time of all of them`)
  assert.equal(sockets.hub.report().passedOn, 200 * 180 + echoes)
})
