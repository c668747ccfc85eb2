/**
 * The matrix: every route that the gateway publishes, against every token that must not open it, with one of the algorithms
 * each (with all of them in tokens.long.test.ts), and against good ones for each algorithm. A route that is added stands in
 * it by itself.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { algorithms, createSigner, tokenFor } from '../tokens.ts'
import { meetBadTokens, place } from './bad-tokens.ts'
import { startKeyed } from './keyed.ts'

/** The scope that a route demands, by its access; the others want a good token alone, or none. */
const scopeOf: Readonly<Partial<Record<string, string>>> = {
  operator: 'sluice:admin',
  reader: 'sluice:read',
  reporter: 'sluice:feedback',
}

meetBadTokens(4)

for (const algorithm of algorithms) {
  test(`${algorithm}: a good token opens what it is for, and the operators' routes only with their scope`, async (t) => {
    const signer = createSigner(algorithm)
    const { routes, ask } = await startKeyed(t, signer)
    const plain = tokenFor(signer, { scope: 'sluice:publish sluice:administrator xsluice:admin' })
    const operator = tokenFor(signer, { scope: 'sluice:publish sluice:admin' })
    const reporter = tokenFor(signer, { scope: 'sluice:feedback' })
    const reader = tokenFor(signer, { scope: 'sluice:read' })
    const listed = tokenFor(signer, { scope: ['other', 'sluice:admin'] })
    for (const { method, path, access } of routes) {
      const about = `${method} ${path}`
      const asPlain = await ask(method, place(path), { token: plain })
      const scope = scopeOf[access]
      if (scope !== undefined) {
        assert.equal(asPlain.status, 403, about)
        assert.equal(asPlain.body.code, 'FORBIDDEN', about)
        assert.equal(
          asPlain.headers.get('www-authenticate'),
          `Bearer error="insufficient_scope", scope="${scope}"`,
        )
      } else assert.ok(![401, 403].includes(asPlain.status), `${about}: ${asPlain.status}`)
      const asReader = await ask(method, place(path), { token: reader })
      const isReadersToo = access !== 'operator' && access !== 'reporter'
      assert.equal(asReader.status !== 403, isReadersToo, `${about}: ${asReader.status}`)
      for (const token of access === 'reporter' ? [reporter] : [operator, listed]) {
        const { status } = await ask(method, place(path), { token })
        assert.ok(![401, 403].includes(status) && status < 500, `${about}: ${status}`)
      }
    }
    const guarded = new Map(routes.map(({ path, access }) => [path, access]))
    for (const path of ['pools', 'dead-letters', 'policy', 'policy/validate'])
      assert.equal(guarded.get(`/api/v1/${path}`), 'reader', path)
    assert.equal(guarded.get('/api/v1/dead-letters/redrive'), 'operator')
  })
}

test('the document says which token a route needs, and how it is refused without', async (t) => {
  const { document } = await startKeyed(t, createSigner('HS256'))
  const { security, responses } = document.paths['/api/v1/notifications']!.post!
  assert.deepEqual(security, [{ bearer: [] }])
  for (const status of ['401', '403', '503']) assert.ok(status in responses, status)
  const pools = document.paths['/api/v1/pools']!.get!
  assert.deepEqual([pools.security, pools['x-required-scopes']], [[{ bearer: [] }], ['sluice:read']])
})
