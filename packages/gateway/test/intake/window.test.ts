/** The window of a partition: what its position says, and what a restart takes again. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createWindow } from '../../src/intake/window.ts'
import { seeded, testSeed } from '../harness.ts'

describe('window of a partition', () => {
  it('keeps its position before the first record in progress, and names those done ahead of it', () => {
    const window = createWindow({ next: 5, ahead: [] })
    for (const offset of [5, 6, 8, 9]) assert.equal(window.take(offset), true)
    window.done(6)
    window.done(9)
    assert.deepEqual(window.position(), { next: 5, ahead: [6, 9] })
    window.done(5)
    assert.deepEqual(window.position(), { next: 8, ahead: [9] })
    window.done(8)
    assert.deepEqual(window.position(), { next: 10, ahead: [] })
  })

  it('takes no record that an earlier process has done, and none twice', () => {
    const window = createWindow({ next: 5, ahead: [6, 8] })
    assert.deepEqual([5, 6, 7, 8, 9].filter(window.take), [5, 7, 9])
    assert.equal(window.take(7), false)
    for (const offset of [5, 7, 9]) window.done(offset)
    assert.deepEqual(window.position(), { next: 10, ahead: [] })
  })

  it('passes over the gaps of a compacted topic', () => {
    const window = createWindow({ next: 0, ahead: [] })
    window.readUpTo(40)
    assert.deepEqual([window.fetchAt(), window.position()], [40, { next: 40, ahead: [] }])
  })

  it('has no more room than its size while a record waits', () => {
    const window = createWindow({ next: 0, ahead: [] }, 3)
    for (const offset of [0, 1, 2]) window.take(offset)
    window.done(1)
    window.done(2)
    assert.equal(window.room(), 0)
    window.done(0)
    assert.equal(window.room(), 3)
  })

  it('reads again from the first record that was given back once those in progress are done', () => {
    const window = createWindow({ next: 0, ahead: [] }, 10)
    for (const offset of [0, 1, 2, 3, 4]) window.take(offset)
    window.done(1)
    window.giveBack(2)
    assert.deepEqual([window.room(), window.isHeldUp(), window.isBusy()], [0, true, true])
    window.done(0)
    window.giveBack(3)
    window.done(4)
    assert.deepEqual([window.isBusy(), window.position()], [false, { next: 2, ahead: [4] }])
    window.resume()
    assert.deepEqual([window.fetchAt(), window.room(), window.isHeldUp()], [2, 9, false])
    assert.deepEqual([2, 3, 4, 5].filter(window.take), [2, 3, 5])
  })

  it('has room for the record that waits, also when everything behind it is done', () => {
    const window = createWindow({ next: 0, ahead: [] }, 3)
    for (const offset of [0, 1, 2]) window.take(offset)
    window.giveBack(0)
    window.done(1)
    window.done(2)
    window.resume()
    assert.deepEqual([window.room(), window.take(0)], [1, true])
    window.done(0)
    assert.deepEqual([1, 2].filter(window.take), [])
    assert.deepEqual([window.room(), window.position()], [3, { next: 3, ahead: [] }])
  })

  it(`does each record once over restarts at any moment (seed ${testSeed})`, () => {
    const random = seeded(testSeed)
    const done = new Map<number, number>()
    let position = { next: 0, ahead: [] as readonly number[] }
    for (let restarts = 0; restarts < 200 && position.next < 2_000; restarts += 1) {
      const window = createWindow(position, 20)
      const taken: number[] = []
      for (let steps = Math.floor(random() * 60); steps > 0; steps -= 1) {
        if (random() < 0.5 && window.room() > 0) {
          const offset = window.fetchAt()
          if (window.take(offset)) taken.push(offset)
          continue
        }
        const [offset] = taken.splice(Math.floor(random() * taken.length), 1)
        if (offset === undefined) {
          window.resume()
          continue
        }
        if (random() < 0.2) {
          window.giveBack(offset)
          continue
        }
        done.set(offset, (done.get(offset) ?? 0) + 1)
        window.done(offset)
        assert.ok(window.position().ahead.length < 20)
      }
      position = window.position()
    }
    assert.ok(position.next > 500)
    for (let offset = 0; offset < position.next; offset += 1) assert.equal(done.get(offset), 1, `${offset}`)
  })
})
