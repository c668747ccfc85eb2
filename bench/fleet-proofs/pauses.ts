/**
 * One of two gateways is stopped (SIGSTOP) under load for longer than it takes to declare it dead, and goes on. What it held
 * is sent by the other; when it goes on it may make one call more, settles nothing, and ends.
 */
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { callsOf, startFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { schemaUrl } from '../../packages/gateway/test/store/postgres/database.ts'
import { beatMs, callsById, keepRunning, now, type Proof, query, startLoad, unsettledAfter } from './proof.ts'

const concurrency = 32
/** A gateway is declared dead no earlier than this after its last beat, ms. */
const deadAfterMs = 10_000
/** A call that left before the stop is at the provider within this time, ms. */
const travelMs = 100

/** Waits until both gateways have calls under way. */
async function untilUnderWay(store: string): Promise<void> {
  const text = 'SELECT owner FROM live WHERE begun_at IS NOT NULL GROUP BY owner HAVING count(*) > 2'
  while ((await query(store, text)).length < 2) await sleep(50)
}

export const pauses: Proof = {
  shows:
    'one of two gateways is stopped until it is declared dead: its completions are refused, ≤ 1 extra call',
  engines: ['postgres', 'redis'],
  small: { times: 1, seconds: 20 },
  full: { times: 3, seconds: 60 },
  async run({ cleanup, times, seconds, clients, progress }) {
    const name = 'proof_pauses'
    const policy = { version: 1, limits: [] }
    const fleet = await startFleet(cleanup, { name, beatMs, policy, concurrency })
    await fleet.sink.rules([{ delayMs: 50 }])
    const startedAt = performance.now()
    const rate = 30
    const lengthMs = times * (seconds * 1_000 + 12_000)
    const load = startLoad(fleet, {
      count: Math.ceil((lengthMs / 1_000) * rate),
      clients,
      perSecond: rate,
      recipients: 10_000,
      timeoutMs: 1_500,
    })
    const pausedAt: number[] = []
    const wokenAt: number[] = []
    let ended = 0
    for (let pause = 0; pause < times; pause += 1) {
      await sleep(4_000)
      const stopped = fleet.sites[pause % 2]!
      const { pid } = stopped
      // Calls that are answered while it is stopped: it reads the answers when it goes on.
      await fleet.sink.rules([{ delayMs: 3_000 }])
      await untilUnderWay(schemaUrl(name))
      pausedAt.push(now())
      process.kill(pid!, 'SIGSTOP')
      await fleet.sink.rules([{ delayMs: 50 }])
      await sleep(seconds * 1_000)
      wokenAt.push(now())
      process.kill(pid!, 'SIGCONT')
      for (const until = performance.now() + 30_000; performance.now() < until; await sleep(50))
        if (stopped.pid === undefined) break
      if (stopped.pid === undefined) ended += 1
      else await stopped.kill()
      await keepRunning(fleet)
      progress(`${pause + 1} of ${times} pauses, ${load.accepted.size} accepted`)
    }
    await load.done
    const unsettled = await unsettledAfter(schemaUrl(name), 60_000)
    const byId = callsById(await callsOf(fleet))
    const lost = [...load.accepted.keys()].filter((id) => !byId.has(id)).length
    const underWay = new Array<number>(times).fill(0)
    const extra = new Array<number>(times).fill(0)
    const repeated: string[] = []
    for (const [id, own] of byId)
      for (const [index, { at }] of own.entries()) {
        const next = own[index + 1]?.at
        if (next === undefined) continue
        // At the provider when the process was stopped, and repeated by the one that took over.
        const pause = pausedAt.findIndex((paused) => at <= paused + travelMs && next > paused + deadAfterMs)
        if (pause >= 0 && at > pausedAt[pause]! - 5_000) {
          underWay[pause]! += 1
          repeated.push(id)
        } else
          extra[
            Math.max(
              0,
              wokenAt.findLastIndex((woken) => woken <= next),
            )
          ]! += 1
      }
    const list = repeated.map((id) => `'${id}'`).join(', ') || 'NULL'
    const [suspected] = await query(
      schemaUrl(name),
      `SELECT count(*)::int AS n FROM outcome WHERE id IN (${list}) AND suspects IS NOT NULL AND status = 6`,
    )
    const figures = {
      pauses: times,
      pausedS: seconds,
      accepted: load.accepted.size,
      ended,
      lost,
      unsettled,
      underWay,
      // The taker's settlement is the one on record: it knows of the call before.
      settledByTaker: suspected!.n,
      extra,
      wrong: load.wrong.length,
      tookMs: Math.round(performance.now() - startedAt),
    }
    const isRight =
      ended === times &&
      lost + unsettled + figures.wrong === 0 &&
      underWay.every((n) => n > 0 && n <= concurrency) &&
      figures.settledByTaker === repeated.length &&
      extra.every((n) => n <= 1)
    return { figures, isRight }
  },
}
