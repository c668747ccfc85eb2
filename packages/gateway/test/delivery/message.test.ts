import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { type Composer, compose } from '../../src/delivery/message.ts'
import type { JsonObject } from '../../src/model.ts'

/** Templates that can render at most `max` items and record the counts tried. */
function renderingAtMost(max: number): { readonly composer: Composer; readonly tried: number[] } {
  const tried: number[] = []
  const composer: Composer = {
    templates: {
      has: () => true,
      hasSubject: () => true,
      render(_name, _channel, { data }) {
        const { items, totalCount, hasMore } = data as {
          items: JsonObject[]
          totalCount: number
          hasMore: boolean
        }
        tried.push(items.length)
        if (items.length > max) throw new RangeError('Invalid string length')
        return { text: `${items.length} of ${totalCount}${hasMore ? ', and more' : ''}` }
      },
    },
  }
  return { composer, tried }
}

const { content: _, ...plain } = someNotification({ template: 'activity-digest' })
const digest = { ...plain, actors: ['bob'] }
const data = { items: Array.from({ length: 10 }, (_, index) => ({ index })), totalCount: 10, hasMore: false }

test('a digest whose template cannot render all items renders fewer and sets hasMore', () => {
  const { composer, tried } = renderingAtMost(3)
  assert.deepEqual(compose(composer, digest, { data }, null).content, { text: '2 of 10, and more' })
  assert.deepEqual(tried, [10, 5, 2])
  const all = renderingAtMost(10)
  assert.deepEqual(compose(all.composer, digest, { data }, null).content, { text: '10 of 10' })
})

test('a digest that cannot be rendered at all is rejected after a few tries, any other notification after one', () => {
  const { composer, tried } = renderingAtMost(0)
  assert.throws(() => compose(composer, digest, { data }, null), RangeError)
  assert.deepEqual(tried, [10, 5, 2, 1])
  const single = renderingAtMost(0)
  assert.throws(() => compose(single.composer, plain, { data }, null), RangeError)
  assert.deepEqual(single.tried, [10])
})
