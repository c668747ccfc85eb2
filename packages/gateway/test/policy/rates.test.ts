import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Faults } from '../../src/policy/faults.ts'
import { dayMs, readDuration, readWindows } from '../../src/policy/rates.ts'

function windows(value: unknown) {
  const faults = new Faults()
  const read = readWindows(value, 'max', faults)
  return {
    read: read?.map(({ text, max, windowMs }) => [text, max, windowMs]),
    paths: faults.found.map((fault) => fault.path),
  }
}

test('windows are a text, a list in a text, or a list', () => {
  const both = [
    ['2/day', 2, dayMs],
    ['100/30min', 100, 1_800_000],
  ]
  assert.deepEqual(windows('2/day').read, both.slice(0, 1))
  assert.deepEqual(windows('2/day, 100/30min').read, both)
  assert.deepEqual(windows(['2/day', '100/30min']).read, both)
})

test('unlimited gives no window', () => {
  assert.deepEqual(windows('unlimited'), { read: [], paths: [] })
})

test('a maximum of zero is a maximum', () => {
  assert.deepEqual(windows('0/day').read, [['0/day', 0, dayMs]])
})

for (const value of [
  '',
  '2',
  '2/',
  '/day',
  '2/fortnight',
  '-1/day',
  '1.5/day',
  '2/0s',
  '1/32d',
  '2/day,',
  2,
  true,
  {},
]) {
  test(`${JSON.stringify(value)} is refused as window`, () => {
    assert.deepEqual(windows(value), { read: undefined, paths: ['max'] })
  })
}

test('an invalid entry of a list is named', () => {
  assert.deepEqual(windows(['2/day', 'often', 5]).paths, ['max[1]', 'max[2]'])
  assert.deepEqual(windows([]).paths, ['max'])
  assert.deepEqual(windows(new Array(21).fill('2/day')).paths, ['max'])
})

test('two windows of one length are a mistake', () => {
  for (const twice of ['2/day, 2/day', ['2/day', '3/24h']])
    assert.deepEqual(windows(twice), { read: undefined, paths: ['max'] })
})

test('a duration is at least a millisecond and at most the supported maximum', () => {
  const read = (value: unknown) => {
    const faults = new Faults()
    return readDuration(value, 'window', dayMs, faults) ?? faults.found.map((fault) => fault.path)
  }
  assert.equal(read('300ms'), 300)
  assert.equal(read('24h'), dayMs)
  for (const wrong of ['0s', '25h', '1.5h', 'soon', '', 60, null, ['1h']])
    assert.deepEqual(read(wrong), ['window'])
})
