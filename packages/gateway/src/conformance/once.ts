/** The conformance suite of the port that knows requests in progress: `exerciseOnce` runs it against any adapter. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Once, OnceKey } from '../ports/fleet.ts'

const request: OnceKey = { tenant: 'acme', module: 'shop', method: 'POST', path: '/notifications', key: 'k1' }

/** Registers the suite `name` with node:test. `open` gives an adapter that knows no request. */
export function exerciseOnce(name: string, open: () => Once | Promise<Once>): void {
  describe(name, () => {
    it('begins a request once, and again after its end', async () => {
      const once = await open()
      assert.equal(await once.begin(request, 'body'), 'new')
      assert.equal(await once.begin(request, 'body'), 'busy')
      await once.end(request)
      assert.equal(await once.begin(request, 'body'), 'new')
    })

    it('tells a repetition with another body from the same one', async () => {
      const once = await open()
      assert.equal(await once.begin(request, 'body'), 'new')
      assert.equal(await once.begin(request, 'another body'), 'mismatch')
      assert.equal(await once.begin(request, 'body'), 'busy')
    })

    it('tells requests apart by every part of their key', async () => {
      const once = await open()
      assert.equal(await once.begin(request, 'body'), 'new')
      for (const part of ['tenant', 'module', 'method', 'path', 'key'] as const)
        assert.equal(await once.begin({ ...request, [part]: 'other' }, 'body'), 'new', part)
      // Joined without a separator the two would be one.
      assert.equal(await once.begin({ ...request, tenant: 'a', module: 'bc' }, 'body'), 'new')
      assert.equal(await once.begin({ ...request, tenant: 'ab', module: 'c' }, 'body'), 'new')
    })

    it('begins one of a hundred equal requests that come at once', async () => {
      const once = await open()
      const begun = await Promise.all(Array.from({ length: 100 }, () => once.begin(request, 'body')))
      assert.equal(begun.filter((each) => each === 'new').length, 1)
    })
  })
}
