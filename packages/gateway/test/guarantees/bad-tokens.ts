/** Meets the routes that the gateway publishes with every token that must not open them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testSeed } from '../harness.ts'
import { algorithms, badTokens, createSigner } from '../tokens.ts'
import { startKeyed } from './keyed.ts'

export const place = (path: string): string => path.replaceAll(/\{[a-z]+\}/g, 'x1')

/**
 * Registers a test for each algorithm.
 *
 * @param spread - a route meets one of so many tokens with each algorithm, another one with the next: with as many as there
 * are algorithms every token with one of them
 */
export function meetBadTokens(spread: 1 | 4): void {
  for (const [turn, algorithm] of algorithms.entries()) {
    test(`${algorithm}: no route opens without a token that is right in everything`, async (t) => {
      const signer = createSigner(algorithm)
      const { routes, ask } = await startKeyed(t, signer)
      const closed = routes.filter(({ access }) => access !== 'open')
      assert.ok(closed.length >= 17, `${closed.length} routes`)
      const bad = badTokens(signer)
      const met = new Set<string>()
      for (const [row, { method, path }] of closed.entries()) {
        const isMet = (_: unknown, index: number): boolean => (row + index + turn + testSeed) % spread === 0
        for (const { name, authorization } of bad.filter(isMet)) {
          met.add(name)
          const reply = await ask(method, place(path), { authorization })
          const about = `${method} ${path}: ${name}`
          assert.equal(reply.status, 401, about)
          assert.equal(reply.body.code, 'UNAUTHENTICATED', about)
          const challenge = reply.headers.get('www-authenticate')
          if (authorization === undefined) assert.equal(challenge, 'Bearer', about)
          else
            assert.match(
              challenge ?? '',
              /^Bearer error="invalid_token", error_description="[^"\\]+"$/,
              about,
            )
          const token = authorization?.split(' ')[1] ?? ''
          if (token.length > 8) assert.ok(!reply.text.includes(token), `${about}: the token is not repeated`)
        }
      }
      assert.equal(met.size, bad.length, 'each token meets some route')
      t.diagnostic(`seed ${testSeed}: ${closed.length} routes × ${bad.length} tokens, one of ${spread}`)
    })
  }
}
