/**
 * The clock of PostgreSQL is set an hour on, an hour back, and right again. No gateway may be declared dead, all is
 * delivered, and no recipient gets more than its limit.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { callsOf, startFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { startPostgres } from '../../scripts/services/postgres.ts'
import { beatMs, missingAfter, type Proof, postFor, windowsOver } from './proof.ts'

/** Their limits admit what is posted, 200/s at most, so that nothing waits at the end but what the steps of the clock held up. */
const recipients = 100

export const clock: Proof = {
  shows: 'the clock of PostgreSQL is set an hour on and back: nobody is declared dead, no window is over',
  engines: ['redis', 'faketime'],
  small: { seconds: 40 },
  full: { seconds: 120 },
  async run({ cleanup, seconds }) {
    const clockFile = join(tmpdir(), `sluice-proof-clock-${process.pid}`)
    const setClock = (text: string): void => writeFileSync(clockFile, `${text}\n`, { mode: 0o644 })
    setClock('+0s')
    cleanup.after(() => rmSync(clockFile, { force: true }))
    const faked = {
      LD_PRELOAD: process.env.SLUICE_TEST_FAKETIME!,
      FAKETIME_TIMESTAMP_FILE: clockFile,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    }
    Object.assign(process.env, faked)
    const server = await startPostgres()
    for (const name of Object.keys(faked)) delete process.env[name]
    cleanup.after(() => server.stop())
    const client = new pg.Client(server.url)
    await client.connect()
    const limits = [{ name: 'all', for: 'any', max: ['5/2s'], over: 'delay' }]
    const fleet = await startFleet(cleanup, {
      name: 'proof-clock',
      config: { store: server.url },
      policy: { version: 1, limits },
      beatMs,
    })
    const hours: number[] = []
    const readHour = async (): Promise<void> => {
      const { rows } = await client.query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS at')
      hours.push(Math.round(((Number(rows[0].at) - Date.now()) / 3_600_000) * 100) / 100)
    }
    const stepping = (async () => {
      for (const step of ['+3600s', '-3600s', '+0s']) {
        await sleep((seconds * 1_000) / 4)
        setClock(step)
        await readHour()
      }
    })()
    const accepted = await postFor(fleet, seconds * 1_000, recipients)
    await stepping
    const missing = await missingAfter(fleet, accepted, 60_000)
    await client.end()
    const dead = fleet.sites.filter(
      (site) => site.pid === undefined || site.log().includes('gateway.declared_dead'),
    )
    const calls = await callsOf(fleet)
    const over = windowsOver(calls, { max: 5, windowMs: 2_000 })
    const figures = {
      hoursAhead: hours,
      declaredDead: dead.length,
      accepted: accepted.length,
      missing: missing.length,
      windowsOver: over,
    }
    return {
      figures,
      isRight:
        dead.length === 0 && missing.length === 0 && over === 0 && hours[0]! > 0.9 && accepted.length > 0,
    }
  },
}
