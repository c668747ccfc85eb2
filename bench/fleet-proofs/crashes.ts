/**
 * PostgreSQL crashes and comes back (`pg_ctl -m immediate`) under two gateways, with claims that it had not written to its
 * log yet. Nothing may be lost, and no window of a recipient or of the account may hold more than its limit.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { callsOf, startFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { overfull } from '../../packages/gateway/test/guarantees/windows.ts'
import { seeded } from '../../packages/gateway/test/harness.ts'
import { crashPostgres, startPostgres } from '../../scripts/services/postgres.ts'
import {
  beatMs,
  callsById,
  doublesOf,
  type Proof,
  query,
  startLoad,
  unsettledAfter,
  windowsOver,
} from './proof.ts'

const concurrency = 32
const limit = { max: 10, windowMs: 4_000 }
const rate = { max: 120, windowMs: 1_000 }

export const crashes: Proof = {
  shows: 'PostgreSQL crashes under two gateways with claims that were not written: 0 lost, 0 windows over',
  engines: ['redis'],
  small: { count: 2_000, times: 3 },
  full: { count: 20_000, times: 20 },
  async run({ cleanup, count, times, clients, seed, progress }) {
    const chance = seeded(seed)
    const folder = mkdtempSync(join(tmpdir(), 'sluice-proof-crashes-'))
    cleanup.after(() => rmSync(folder, { recursive: true, force: true }))
    let server = await startPostgres({ folder })
    cleanup.after(() => server.stop())
    // Claims commit without waiting for the disk: so long they may be lost.
    await query(server.url, "ALTER SYSTEM SET wal_writer_delay = '10s'")
    await query(server.url, 'SELECT pg_reload_conf()')
    const policy = { version: 1, limits: [{ name: 'all', for: 'any', max: ['10/4s'], over: 'delay' }] }
    const fleet = await startFleet(cleanup, {
      name: 'proof-crashes',
      beatMs,
      policy,
      concurrency,
      rate: ['120/s'],
      config: { store: server.url },
    })
    await fleet.sink.rules([{ delayMs: 30 }])
    const points = Array.from({ length: times }, () => Math.floor(chance() * count)).sort((a, b) => a - b)
    let crashed = 0
    let claimsLost = 0
    const load = startLoad(fleet, {
      count,
      clients,
      perSecond: 90,
      recipients: 60,
      sendAfterMs: 3_000,
      barrier: () => (points[crashed] ?? count) + 1,
    })
    const claims = 'SELECT id FROM live WHERE owner IS NOT NULL AND begun_at IS NULL'
    for (const point of points) {
      while (load.posted() <= point) await sleep(5)
      const before = await query(server.url, claims)
      await crashPostgres(server)
      await server.stop()
      server = await startPostgres({ folder, port: Number(new URL(server.url).port) })
      const after = new Set((await query(server.url, claims)).map(({ id }) => id))
      claimsLost += before.filter(({ id }) => !after.has(id)).length
      crashed += 1
      progress(`${crashed} of ${times} crashes, ${load.accepted.size} of ${count} accepted`)
      await sleep(1_000)
    }
    await load.done
    const unsettled = await unsettledAfter(server.url, 120_000)
    const calls = await callsOf(fleet)
    const byId = callsById(calls)
    const lost = [...load.accepted.keys()].filter((id) => !byId.has(id)).length
    const [onRecord] = await query(server.url, 'SELECT count(*)::int AS n FROM notification')
    const figures = {
      accepted: load.accepted.size,
      onRecord: onRecord!.n,
      crashes: crashed,
      claimsLost,
      lost,
      unsettled,
      doubles: doublesOf(calls),
      windowsOver: windowsOver(calls, limit),
      accountOver: overfull(
        calls.map(({ at }) => at),
        rate,
      ),
      dead: fleet.sites.filter(({ pid }) => pid === undefined).length,
      wrong: load.wrong.length,
      seed,
    }
    const isRight =
      load.accepted.size === count &&
      figures.onRecord === count &&
      claimsLost > 0 &&
      lost + unsettled + figures.windowsOver + figures.accountOver + figures.dead + figures.wrong === 0
    return { figures, isRight }
  },
}
