/** The walk round a map that is written to meanwhile, and what it keeps alive while it rests. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { MapWalk } from '../../../src/adapters/state/map-walk.ts'
import { createPackedSubjects } from '../../../src/adapters/state/packed-subjects.ts'
import { SubjectCache } from '../../../src/adapters/state/subject-cache.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Counts what is alive after a collection. A weak reference keeps its target until the end of its turn. */
async function aliveOf(references: readonly WeakRef<object>[]): Promise<number> {
  await new Promise((resolve) => setImmediate(resolve))
  collect()
  return references.filter((reference) => reference.deref() !== undefined).length
}

test('a walk round a map goes on where it was, meets what was added, and begins again behind the end', () => {
  const map = new Map([1, 2, 3].map((key) => [key, `${key}`]))
  const walk = new MapWalk(map)
  assert.deepEqual(walk.next(), [1, '1'])
  map.delete(2)
  walk.wrote()
  map.set(4, '4')
  walk.wrote()
  assert.deepEqual(
    [walk.next(), walk.next()],
    [
      [3, '3'],
      [4, '4'],
    ],
  )
  assert.deepEqual([walk.next(), walk.next()], [undefined, [1, '1']])
})

test('a walk that rests keeps nothing of what has left its map', async () => {
  const map = new Map<number, object>()
  const walk = new MapWalk(map)
  const references: WeakRef<object>[] = []
  const size = 100
  for (let key = 0; key < 50 * size; key += 1) {
    const value = { key }
    references.push(new WeakRef(value))
    map.set(key, value)
    map.delete(key - size)
    walk.wrote()
    if (key === size) walk.next()
  }
  assert.equal(await aliveOf(references), size)
  assert.deepEqual(walk.next()?.[0], 50 * size - size)
})

test('a subject that was replaced is not kept by a cache that has room', async () => {
  const cache = new SubjectCache<{ touched: boolean }>(
    1_000,
    () => true,
    () => {},
  )
  const references: WeakRef<object>[] = []
  for (let round = 0; round < 2; round += 1)
    for (let key = 0; key < 100; key += 1) {
      const subject = { touched: false }
      references.push(new WeakRef(subject))
      cache.makeRoom()
      cache.set(`${key}`, subject)
    }
  assert.equal(await aliveOf(references), 100)
  assert.ok(cache.get('99'))
})

test('subjects that are packed and taken again and again leave no memory behind', () => {
  const packed = createPackedSubjects(24_000_000)
  const entry = { at: 1, fired: true, streams: ['all'] }
  const live = 100
  const turn = (index: number): void => {
    packed.put(`${index}`, [{ ...entry, id: `${index}${'x'.repeat(500)}` }], undefined)
    packed.take(`${index - live}`)
  }
  let index = 0
  for (; index < 1_000; index += 1) turn(index)
  collect()
  const before = process.memoryUsage().heapUsed
  for (; index < 40_000; index += 1) turn(index)
  collect()
  const grownMiB = (process.memoryUsage().heapUsed - before) / 1024 / 1024
  assert.equal(packed.size, live)
  assert.ok(grownMiB < 4, `${grownMiB.toFixed(1)} MiB more`)
})
