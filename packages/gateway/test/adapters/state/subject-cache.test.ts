/** The subjects that the limiter's state in memory holds: who leaves for a newcomer, and who stays. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SubjectCache } from '../../../src/adapters/state/subject-cache.ts'

function cacheOf(max: number, keys: string) {
  const left: string[] = []
  const cache = new SubjectCache<{ touched: boolean }>(
    max,
    () => true,
    (key) => left.push(key),
  )
  for (const key of keys) cache.set(key, { touched: false })
  return { cache, left }
}

test('the subject that was not touched for longest leaves for a newcomer', () => {
  const { cache, left } = cacheOf(3, 'abc')
  cache.get('a')!.touched = true
  cache.makeRoom()
  assert.deepEqual(left, ['b'])
})

test('a subject that questions wait for stays until the last of them is answered', () => {
  const { cache, left } = cacheOf(2, 'ab')
  const asked = [{ subject: { key: 'a' } }]
  cache.pin(asked)
  cache.pin(asked)
  cache.makeRoom()
  assert.deepEqual(left, ['b'], 'another one leaves in its place')

  cache.unpin(asked)
  cache.set('c', { touched: true })
  cache.makeRoom()
  assert.deepEqual(left, ['b', 'c'], 'one of two questions is answered')

  cache.unpin(asked)
  cache.set('d', { touched: true })
  cache.makeRoom()
  assert.deepEqual(left, ['b', 'c', 'a'])
})
