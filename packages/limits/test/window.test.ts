import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LimitsError } from '../src/errors.ts'
import { formatDuration, formatWindow, parseDuration, parseWindow, parseWindows } from '../src/window.ts'

const code = (expected: string) => (error: unknown) =>
  error instanceof LimitsError && error.code === expected && error.message.length > 20

describe('durations', () => {
  it('are read in every unit', () => {
    const written = { '300ms': 300, '3s': 3_000, '60min': 3_600_000, '4h': 14_400_000, '7d': 604_800_000 }
    for (const [text, ms] of Object.entries(written)) assert.equal(parseDuration(text), ms)
    const units = {
      '2day': 172_800_000,
      '1week': 604_800_000,
      '1month': 2_592_000_000,
      '0s': 0,
      ' 5 min ': 300_000,
    }
    for (const [text, ms] of Object.entries(units)) assert.equal(parseDuration(text), ms)
    assert.equal(parseDuration(250), 250)
  })

  it('are refused where they are not whole numbers of a known unit', () => {
    for (const text of [
      '',
      'h',
      '4',
      '-4h',
      '1.5h',
      '4 hours',
      '4m',
      '1e3s',
      '4hh',
      '0x4h',
      '٤h',
      '9999999999999999h',
      'constructor',
      '4toString',
    ]) {
      assert.throws(() => parseDuration(text), code('INVALID_DURATION'), text)
    }
    for (const value of [Number.NaN, -1, 1.5, Infinity])
      assert.throws(() => parseDuration(value), code('INVALID_DURATION'))
    for (const value of [null, undefined, {}, ['4h']])
      assert.throws(() => parseDuration(value as unknown as string), code('INVALID_DURATION'))
  })

  it('are written in their largest whole unit', () => {
    assert.deepEqual([86_400_000, 90_000, 3_600_000, 1_500, 0].map(formatDuration), [
      '1d',
      '90s',
      '1h',
      '1500ms',
      '0ms',
    ])
  })
})

describe('windows', () => {
  it('are read as the contract writes them', () => {
    const written: Record<string, [number, number]> = {
      '2/day': [2, 86_400_000],
      '100/30min': [100, 1_800_000],
      '1000/s': [1_000, 1_000],
      '10/1h': [10, 3_600_000],
      '3/500ms': [3, 500],
      '0/day': [0, 86_400_000],
      '10/month': [10, 2_592_000_000],
      '5/31d': [5, 2_678_400_000],
      '9/366d': [9, 31_622_400_000],
      '12/12months': [12, 31_104_000_000],
      '5/hour': [5, 3_600_000],
      '5/minute': [5, 60_000],
      '5/2hours': [5, 7_200_000],
      '5/second': [5, 1_000],
      '5/30 minutes': [5, 1_800_000],
    }
    for (const [text, [max, windowMs]] of Object.entries(written))
      assert.deepEqual({ ...parseWindow(text) }, { max, windowMs, text: text.replaceAll(' ', '') })
    assert.equal(parseWindow(' 2 / 1 day ').text, '2/1day')
  })

  it('are read from a text with commas and from a list alike', () => {
    assert.deepEqual(parseWindows('2/day, 5/week'), parseWindows(['2/day', '5/week']))
    assert.deepEqual(
      parseWindows(['2/day,5/week', '10/month']).map(({ max }) => max),
      [2, 5, 10],
    )
  })

  it('are refused with a reason where they cannot be kept', () => {
    const wrong = [
      '',
      '2',
      '/day',
      '2/',
      '-2/day',
      '2.5/day',
      'NaN/day',
      '2/0s',
      '2/367d',
      '2/13month',
      '2/m',
      '1000001/s',
      '2/day/week',
      '2/day,',
      'Infinity/s',
      '2/-1s',
      '2/1.5h',
    ]
    for (const text of wrong) assert.throws(() => parseWindows(text), code('INVALID_WINDOW'), text)
    for (const value of [null, 2, {}, [2], [null]])
      assert.throws(() => parseWindows(value as unknown as string), code('INVALID_WINDOW'))
  })

  it('are written as one would write them', () => {
    for (const text of [
      '2/day',
      '5/week',
      '10/month',
      '100/30min',
      '10/h',
      '3/500ms',
      '1/s',
      '4/3d',
      '1/ms',
    ]) {
      assert.equal(formatWindow(parseWindow(text)), text)
    }
    assert.equal(formatWindow(parseWindow('10/1h')), '10/h')
  })
})
