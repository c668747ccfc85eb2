/**
 * One of two gateways is killed again and again, at random messages, and starts again at once. Nothing may be lost, a kill
 * repeats no more calls than were under way, and all is at the provider 30 s after the last kill.
 */
import { callsOf, startFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { seeded } from '../../packages/gateway/test/harness.ts'
import { schemaUrl } from '../../packages/gateway/test/store/postgres/database.ts'
import {
  beatMs,
  callsById,
  doublesOf,
  keepRunning,
  now,
  type Proof,
  query,
  startLoad,
  unsettledAfter,
  windowsOver,
} from './proof.ts'

/** Calls of a gateway under way at most, and so the doubles that one kill can make. */
const concurrency = 32
const limit = { max: 30, windowMs: 10_000 }
const afterKillMs = 30_000

export const kills: Proof = {
  shows: 'one of two gateways is killed at random messages: 0 lost, doubles ≤ under way, all sent 30 s after',
  engines: ['postgres', 'redis'],
  small: { count: 2_000, times: 4 },
  full: { count: 100_000, times: 200 },
  async run({ cleanup, count, times, clients, seed, progress }) {
    const chance = seeded(seed)
    const points = Array.from({ length: times }, () => Math.floor(chance() * count)).sort((a, b) => a - b)
    const policy = { version: 1, limits: [{ name: 'all', for: 'any', max: ['30/10s'], over: 'delay' }] }
    const name = 'proof_kills'
    const fleet = await startFleet(cleanup, { name, beatMs, policy, concurrency })
    // A provider that answers at once has nothing under way at a kill.
    await fleet.sink.rules([{ delayMs: 30 }])
    const killedAt: number[] = []
    let declaredDead = 0
    // Messages wait for the kill before them, however long the killed one takes to start.
    const load = startLoad(fleet, {
      count,
      clients,
      perSecond: 250,
      recipients: 200,
      barrier: () => (points[killedAt.length] ?? count) + 1,
    })
    for (const point of points) {
      while (load.posted() <= point) await new Promise((resolve) => setTimeout(resolve, 5))
      const victim = fleet.sites[Math.floor(chance() * fleet.sites.length)]!
      await victim.kill()
      killedAt.push(now())
      declaredDead += await keepRunning(fleet)
      progress(`${killedAt.length} of ${times} kills, ${load.accepted.size} of ${count} accepted`)
    }
    const [waiting] = await query(schemaUrl(name), 'SELECT count(*)::int AS n FROM live')
    const restartedMs = now() - killedAt.at(-1)!
    await load.done
    const lastKillAt = killedAt.at(-1)!
    const unsettled = await unsettledAfter(schemaUrl(name), 120_000)
    const calls = await callsOf(fleet)
    const byId = callsById(calls)
    const lost = [...load.accepted.keys()].filter((id) => !byId.has(id)).length
    const [onRecord] = await query(schemaUrl(name), 'SELECT count(*)::int AS n FROM notification')
    const tookMs = [...load.accepted].map(
      ([id, at]) => (byId.get(id)?.[0]?.at ?? 0) - Math.max(lastKillAt, at),
    )
    // A call that is repeated was under way at the kill behind it.
    const atKills = new Array<number>(times).fill(0)
    let unexplained = 0
    for (const own of byId.values())
      for (const { at } of own.slice(0, -1)) {
        const kill = killedAt.findIndex((each) => each > at - 250)
        if (kill < 0) unexplained += 1
        else atKills[kill]! += 1
      }
    const mostAtKill = Math.max(...atKills)
    const figures = {
      accepted: load.accepted.size,
      onRecord: onRecord!.n,
      kills: killedAt.length,
      declaredDead,
      lost,
      unsettled,
      doubles: doublesOf(calls),
      mostAtKill,
      unexplained,
      windowsOver: windowsOver(calls, limit),
      // A machine that is busy with other work has not sent what was accepted long before the kill.
      waitedBehindLastKill: waiting!.n,
      restartedMs: Math.round(restartedMs),
      sentAfterLastKillMs: Math.round(Math.max(0, ...tookMs)),
      wrong: load.wrong.length,
      seed,
    }
    const isRight =
      load.accepted.size === count &&
      figures.onRecord === count &&
      lost + unsettled + unexplained + figures.windowsOver + figures.wrong === 0 &&
      mostAtKill <= concurrency &&
      figures.sentAfterLastKillMs <= afterKillMs
    return { figures, isRight }
  },
}
