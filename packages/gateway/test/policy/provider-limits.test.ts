/** The shipped example of destination limits, checked against the arrivals: literal windows per address. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'
import type { Draft } from '../../src/model.ts'
import { fullestWindow } from '../../src/sandbox/oracle.ts'
import { createHarness, hour, minute, second } from '../harness.ts'

const policy = parse(
  readFileSync(new URL('../../../../examples/policies/provider-limits.yaml', import.meta.url), 'utf8'),
) as object

const burst: readonly (readonly [
  Partial<Draft>['channel'],
  string,
  readonly (readonly [number, number])[],
])[] = [
  [
    'telegram',
    'telegramChatId',
    [
      [1, second],
      [20, minute],
    ],
  ],
  ['slack', 'slackChannel', [[1, second]]],
  [
    'push',
    'pushToken',
    [
      [240, minute],
      [5_000, hour],
    ],
  ],
  ['sms', 'phone', [[1, second]]],
]

for (const [channel, field, windows] of burst) {
  test(`a burst of two recipients into one ${field} is sent as fast as the example allows, and no faster`, async () => {
    const harness = await createHarness({ policy })
    const address = channel === 'sms' ? '+390612345678' : '4711'
    const number = channel === 'push' ? 300 : 50
    await harness.postMany(
      Array.from({ length: number }, (_, index) => ({
        to: { id: index % 2 === 0 ? 'ada' : 'bob', [field]: address },
        channel: channel!,
        content: { title: `n ${index}`, text: `n ${index}` },
      })),
    )
    await harness.runFor(10 * minute)
    const instants = harness.sent({ channel: channel! }).map(({ at }) => at)
    assert.equal(instants.length, number)
    for (const [max, windowMs] of windows)
      assert.equal(fullestWindow('', instants, windowMs).most, Math.min(max, number))
    // As fast as allowed: each window is extended by 20 ms.
    const [max, windowMs] = windows.at(-1)!
    if (channel !== 'push')
      assert.equal(
        instants.at(-1)! - instants[0]!,
        Math.floor((number - 1) / max) * (windowMs + 20) +
          (channel === 'telegram' ? ((number - 1) % max) * 1_020 : 0),
      )
    await harness.check()
    await harness.stop()
  })
}
