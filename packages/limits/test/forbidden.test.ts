import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LimitsError } from '../src/errors.ts'
import { checkForbidden, leave } from '../src/forbidden.ts'

describe('forbidden intervals', () => {
  it('are left at their end, one after the other, in whatever order they come', () => {
    const forbidden = [
      { from: 30, to: 40 },
      { from: 10, to: 20 },
      { from: 15, to: 30 },
    ]
    assert.deepEqual(
      [9, 10, 19, 29, 39, 40].map((t) => leave(forbidden, t)),
      [9, 40, 40, 40, 40, 40],
    )
  })

  it('hold an instant until the last of those that contain it lets it resume', () => {
    const forbidden = [
      { from: 0, to: 10, resumeAt: 12 },
      { from: 5, to: 9, resumeAt: 30 },
    ]
    assert.deepEqual(
      [4, 5, 8, 9, 10, 29].map((t) => leave(forbidden, t)),
      [12, 30, 30, 12, 10, 29],
    )
  })

  it('may have no end', () =>
    assert.equal(leave([{ from: 0, to: Number.POSITIVE_INFINITY }], 7), Number.POSITIVE_INFINITY))

  it('are brought to whole milliseconds, and empty ones dropped', () => {
    assert.deepEqual(
      checkForbidden([
        { from: 0.2, to: 9.5 },
        { from: 5, to: 5 },
        { from: 7, to: 3 },
      ]),
      [{ from: 1, to: 10, resumeAt: 10 }],
    )
    const clean = [{ from: 0, to: 10, resumeAt: 12 }]
    assert.equal(checkForbidden(clean), clean)
  })

  it('are refused where they are not instants', () => {
    const wrong = [
      { from: Number.NaN, to: 1 },
      { from: 0, to: Number.NaN },
      { from: 0, to: 5, resumeAt: 4 },
      { from: '0', to: 5 },
      { from: 0 },
      { from: 0, to: 5, resumeAt: Number.NaN },
    ]
    for (const interval of wrong) {
      assert.throws(
        () => checkForbidden([interval as { from: number; to: number }]),
        (error) => error instanceof LimitsError && error.code === 'INVALID_ARGUMENT',
      )
    }
  })
})
