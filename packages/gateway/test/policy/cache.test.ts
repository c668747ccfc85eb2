import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Segments } from '../../src/policy/cache.ts'

test('entries in use stay, however many others are added', () => {
  const cache = new Segments<number>(10)
  cache.set('used', 42)
  for (let index = 0; index < 1_000; index++) {
    cache.set(`passing-${index}`, index)
    if (index % 9 === 0) assert.equal(cache.get('used'), 42)
  }
})

test('unused entries are dropped', () => {
  const cache = new Segments<number>(10)
  cache.set('unused', 42)
  for (let index = 0; index < 30; index++) cache.set(`passing-${index}`, index)
  assert.equal(cache.get('unused'), undefined)
})

test('at most two generations are kept', () => {
  const cache = new Segments<number>(10)
  for (let index = 0; index < 1_000; index++) cache.set(`${index}`, index)
  const kept = Array.from({ length: 1_000 }, (_, index) => cache.get(`${index}`)).filter(
    (value) => value !== undefined,
  )
  assert.ok(kept.length >= 10 && kept.length <= 20, `${kept.length} kept`)
})

test('setting a key again replaces its value', () => {
  const cache = new Segments<number>(10)
  cache.set('key', 1)
  cache.set('key', 2)
  assert.equal(cache.get('key'), 2)
})

test('with entry sizes, at most twice the bound is kept', () => {
  const cache = new Segments<string>(100, (value) => value.length)
  for (let index = 0; index < 50; index++) cache.set(`${index}`, 'x'.repeat(30))
  const kept = Array.from({ length: 50 }, (_, index) => `${index}`).filter((key) => cache.get(key))
  assert.ok(kept.length >= 3 && kept.length <= 6, `${kept.length} kept`)
  cache.set('huge', 'x'.repeat(1_000))
  assert.equal(cache.get('huge')?.length, 1_000)
})

test('a deleted entry is gone from both generations, and a replaced one counts once', () => {
  const cache = new Segments<number>(10)
  cache.set('key', 1)
  for (let index = 0; index < 10; index++) cache.set(`passing-${index}`, index)
  cache.get('key')
  cache.delete('key')
  assert.equal(cache.get('key'), undefined)
  cache.set('first', 1)
  for (let index = 0; index < 100; index++) cache.set('same', index)
  assert.equal(cache.get('first'), 1)
})
