/**
 * Gateways over one record on machines whose clocks differ: the provider, a process on a clock of its own, shows that
 * all is sent and that no window is over.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { callsOf, startFleet } from './fleet.ts'
import { overfull } from './windows.ts'

const accountLimit = { max: 20, windowMs: 1_000 }
const recipientLimit = { max: 1, windowMs: 1_000 }
const recipients = Array.from({ length: 10 }, (_, index) => `person-${index}`)
const messagesEach = 4
const arrivalMsMax = 30_000

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
      },
    )
})
