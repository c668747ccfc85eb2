/**
 * Gateways over one record on machines whose clocks differ: the provider, a process on a clock of its own, shows that
 * all is sent and that no window is over.
 */
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { startPostgres } from '../../../../scripts/services/postgres.ts'
import { callsOf, startFleet, type TestFleet } from './fleet.ts'
import { overfull } from './windows.ts'

const accountLimit = { max: 20, windowMs: 1_000 }
const recipientLimit = { max: 1, windowMs: 1_000 }
const recipients = Array.from({ length: 10 }, (_, index) => `person-${index}`)
const messagesEach = 4
const arrivalMsMax = 30_000

/** Posts to both gateways, and asserts that all arrives and no window is over. */
async function sendAll(fleet: TestFleet): Promise<void> {
  for (let index = 0; index < messagesEach; index += 1)
    for (const id of recipients) {
      const answer = await fleet.post(index % 2, { body: { recipient: { id } } })
      assert.equal(answer.status, 202, answer.text)
    }
  const total = messagesEach * recipients.length
  const endsAt = performance.now() + arrivalMsMax
  while ((await callsOf(fleet)).length < total && performance.now() < endsAt) await sleep(200)
  const calls = await callsOf(fleet)
  assert.equal(calls.length, total, 'all are sent')
  const overOf = (of: typeof calls, limit: typeof accountLimit): number =>
    overfull(
      of.map(({ at }) => at),
      limit,
    )
  assert.equal(overOf(calls, accountLimit), 0, 'windows of the account that are over')
  for (const id of recipients)
    assert.equal(
      overOf(
        calls.filter(({ recipient }) => recipient === id),
        recipientLimit,
      ),
      0,
      `windows of ${id} that are over`,
    )
}

/** A PostgreSQL whose clock can be set. */
async function startSteppedPostgres(t: TestContext) {
  const clockFile = join(tmpdir(), `sluice-postgres-clock-${process.pid}`)
  const setClock = (seconds: number): void =>
    writeFileSync(clockFile, `${seconds < 0 ? '' : '+'}${seconds}s\n`, { mode: 0o644 })
  setClock(0)
  t.after(() => rmSync(clockFile, { force: true }))
  const faked = {
    LD_PRELOAD: process.env.SLUICE_TEST_FAKETIME!,
    FAKETIME_TIMESTAMP_FILE: clockFile,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  }
  Object.assign(process.env, faked)
  const server = await startPostgres().finally(() => {
    for (const name of Object.keys(faked)) delete process.env[name]
  })
  return { url: server.url, setClock, stop: server.stop }
}

describe('gateways of one record whose machines have different clocks', { concurrency: 2 }, () => {
  for (const [name, aheadS] of [
    ['skewed', 0.09],
    ['wrong', 3_600],
  ] as const)
    test(
      `send all, and keep every window, where one is ${aheadS} s ahead`,
      needs('postgres', 'redis', 'faketime'),
      async (t) => {
        const fleet = await startFleet(t, {
          name: `clock_${name}`,
          policy: { version: 1, limits: [{ name: 'all', for: 'any', max: '1/1s', over: 'delay' }] },
          rate: ['20/s'],
          envOf: (n): Record<string, string> =>
            n === 0
              ? {}
              : {
                  LD_PRELOAD: process.env.SLUICE_TEST_FAKETIME ?? '',
                  FAKETIME: `+${aheadS}s`,
                  FAKETIME_DONT_FAKE_MONOTONIC: '1',
                },
        })
        await sendAll(fleet)
      },
    )
})

for (const seconds of [3_600, -5])
  test(
    `a gateway that starts right behind a step of PostgreSQL's clock by ${seconds} s has the time of the others`,
    needs('redis', 'faketime'),
    async (t) => {
      const postgres = await startSteppedPostgres(t)
      const fleet = await startFleet(t, {
        name: 'clock_stepped',
        config: { store: postgres.url },
        policy: { version: 1, limits: [{ name: 'all', for: 'any', max: '1/1s', over: 'delay' }] },
        rate: ['20/s'],
        // The other one reads the new clock ten seconds later.
        beatMs: 10_000,
      })
      // Behind the gateways.
      t.after(postgres.stop)
      assert.equal((await fleet.sites[1]!.terminate()).code, 0)
      postgres.setClock(seconds)
      await fleet.sites[1]!.start()
      await sendAll(fleet)
    },
  )
