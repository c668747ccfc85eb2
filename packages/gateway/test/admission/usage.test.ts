import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, hour, minute, second } from '../harness.ts'

test('usage of critical notifications has a wide limit of its own and counts in the others, which report when they free', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', max: ['2/h'], over: 'drop' }],
      critical: { max: ['3/h'], over: 'delay' },
    },
  })
  const statuses: string[] = []
  for (let index = 0; index < 4; index += 1)
    statuses.push((await harness.post({ priority: 'critical' })).status)
  assert.deepEqual(statuses, ['queued', 'queued', 'queued', 'scheduled'])
  assert.equal((await harness.post()).decision.reason, 'over_limit')
  await harness.runFor(second)
  const usage = await harness.done(harness.gateway.gate.usage('default', 'ada'))
  const freesAt = harness.start + hour + 20
  const rows = [
    { limit: 'all', window: '2/h', used: 3, max: 2, remaining: 0, reserved: 1 },
    { limit: 'critical', window: '3/h', used: 3, max: 3, remaining: 0, reserved: 1 },
  ]
  const sorted = [...usage].sort((a, b) => a.limit.localeCompare(b.limit))
  assert.deepEqual(
    sorted.map(({ freesAt: _, ...row }) => row),
    rows,
  )
  for (const row of sorted) assert.ok(row.freesAt! >= freesAt, `${row.limit} frees at ${row.freesAt}`)
  await harness.check()
  await harness.stop()
})

test('usage of a limit per author has a row for each counted author, and zeros for an unknown recipient', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [
        { name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['3/day'], over: 'drop' },
        { name: 'all', for: 'any', max: ['9/day'], minGap: '1s', over: 'delay' },
      ],
    },
  })
  await harness.post({ actor: 'eve' })
  await harness.post({ actor: 'bob' })
  await harness.runFor(minute)
  const rows = (await harness.done(harness.gateway.gate.usage('default', 'ada'))).map(
    ({ limit, window, used }) => `${limit} ${window} ${used}`,
  )
  assert.deepEqual(rows.sort(), ['all 1/1s 0', 'all 9/day 2', 'author 3/day 1', 'author 3/day 1'])
  const unknown = await harness.done(harness.gateway.gate.usage('default', 'nobody'))
  assert.deepEqual(
    unknown.map(({ limit, used, remaining, reserved }) => [limit, used, remaining, reserved]).sort(),
    [
      ['all', 0, 1, 0],
      ['all', 0, 9, 0],
      ['author', 0, 3, 0],
    ],
  )
  await harness.stop()
})
