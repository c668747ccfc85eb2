import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readDuration, readRate, readShare, readSize, sizeText } from '../../src/config/quantity.ts'

test('rates are one window or several, or unlimited', () => {
  assert.deepEqual(readRate('100/s').windows, [{ max: 100, windowMs: 1_000, text: '100/s' }])
  assert.equal(readRate(['100 / s', '5/30min']).text, '100/s, 5/30min')
  assert.deepEqual(readRate('unlimited'), { text: 'unlimited', windows: [] })
  for (const bad of ['', '100', '0/s', '1/s,', '-1/s', '1.5/s', '1/fortnight', '1/0s'])
    assert.throws(() => readRate(bad), Error, bad)
  assert.throws(() => readRate([]), /without a bound write unlimited/)
})

test('durations have a unit, or are milliseconds', () => {
  assert.deepEqual(
    ['300ms', '3s', '60min', '4h', '7d'].map(readDuration),
    [300, 3_000, 3_600_000, 14_400_000, 604_800_000],
  )
  assert.equal(readDuration(1_500), 1_500)
  for (const bad of ['1', '1 hour', '-1s', '1.5s', -1, 0.5])
    assert.throws(() => readDuration(bad), Error, String(bad))
})

test('sizes have a unit, or are bytes, and are shown in the largest whole unit', () => {
  assert.deepEqual(['1MiB', '64KiB', '10 B', '1MB'].map(readSize), [1_048_576, 65_536, 10, 1_000_000])
  assert.deepEqual([1_048_576, 65_536, 1_000].map(sizeText), ['1MiB', '64KiB', '1000B'])
  for (const bad of ['0B', '1', '1mb', 0, -1, 1.5]) assert.throws(() => readSize(bad), Error, String(bad))
})

test('shares are percentages, or numbers up to 1', () => {
  assert.deepEqual(
    [readShare('5%'), readShare('0.5 %'), readShare(0.25), readShare('100%')],
    [0.05, 0.005, 0.25, 1],
  )
  for (const bad of ['101%', 'x', 1.01, -0.1, Number.NaN])
    assert.throws(() => readShare(bad), Error, String(bad))
})
