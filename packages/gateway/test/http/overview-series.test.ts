import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOverviewSeries } from '../../src/http/overview-series.ts'

test('a series holds an hour of seconds and a day of minutes, and forgets what is older', () => {
  let now = 1_000_000_000
  const series = createOverviewSeries(() => now)
  series.add('accepted', 5)
  now += 30_000
  series.add('accepted', 3)
  const values = (step: 'second' | 'minute') => series.read(step).values.accepted
  assert.equal(values('second').length, 31)
  assert.deepEqual([values('second')[0], values('second')[30]], [5, 3])
  assert.equal(series.perSecond('accepted'), Math.round((8 / 31) * 1_000) / 1_000)
  now += 3_600_000
  assert.equal(values('second').length, 3_600)
  assert.equal(
    values('second').some((value) => value > 0),
    false,
  )
  assert.equal(
    values('minute').reduce((sum, value) => sum + value, 0),
    8,
  )
  now += 2 * 86_400_000
  assert.deepEqual([values('minute').length, values('minute').some((value) => value > 0)], [1_440, false])
})

test('quantiles are those of the last minute, at most 19 % too high', () => {
  let now = 5_000_000
  const series = createOverviewSeries(() => now)
  assert.equal(series.quantile('late', 0.5), null)
  for (let ms = 1; ms <= 1_000; ms += 1) series.observe('late', ms)
  for (const share of [0.5, 0.9, 0.99]) {
    const found = series.quantile('late', share)!
    assert.ok(found >= share * 1_000 && found <= share * 1_000 * 1.2, `${share}: ${found}`)
  }
  now += 61_000
  assert.equal(series.quantile('late', 0.99), null)
})

test('what another process has counted and measured is added once', () => {
  let now = 9_000_000
  const [one, two] = [createOverviewSeries(() => now), createOverviewSeries(() => now)]
  assert.equal(one.takeShare(), undefined)
  one.add('accepted', 4)
  for (const ms of [10, 20, 400]) one.observe('accept', ms)
  two.add('accepted')
  two.observe('accept', 1)
  const told = JSON.parse(JSON.stringify(one.takeShare()))
  assert.equal(one.takeShare(), undefined)
  now += 1_000
  two.join(told)
  const { accepted, acceptP99Ms } = two.read('second').values
  assert.deepEqual(
    [accepted, acceptP99Ms],
    [
      [1, 4],
      [1, 400],
    ],
  )
  assert.ok(two.quantile('accept', 0.99)! >= 400)
  assert.ok(two.quantile('accept', 0.5)! < 20)
  two.takeShare()
  two.join(told)
  assert.equal(two.takeShare(), undefined, 'a share of another process is told by that one alone')
})
