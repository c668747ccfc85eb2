import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { createAuthenticate } from '../../src/http/authentication.ts'
import type { Identity } from '../../src/http/identity.ts'
import type { Claims } from '../../src/ports/tokens.ts'

const names = { tenant: 'tenant.id', module: 'module.id', scope: 'scope' }
const good = { tenant: { id: 'acme' }, module: { id: 'shop' }, exp: 2_000 }

/** Authentication whose tokens are their own claims, in base64url; verifications are counted. */
function setUp(options: { readonly claims?: typeof names; readonly rememberedMax?: number } = {}) {
  const state = { now: 1_000_000, verified: 0 }
  const authenticate = createAuthenticate({
    claims: names,
    clock: { now: () => state.now },
    tokens: {
      async verify(token) {
        state.verified += 1
        return JSON.parse(Buffer.from(token, 'base64url').toString()) as Claims
      },
    },
    ...options,
  })
  const ask = async (claims: object): Promise<Identity> =>
    authenticate({
      headers: { authorization: `Bearer ${Buffer.from(JSON.stringify(claims)).toString('base64url')}` },
    })
  return { state, authenticate, ask }
}

test('claims become an identity, nested or dotted, under any configured name', async () => {
  const { ask } = setUp()
  const identity = {
    tenant: 'acme',
    module: 'shop',
    scopes: new Set(['sluice:admin', 'b']),
    subject: 'user-42',
    expiresAtMs: 2_000_000,
  }
  assert.deepEqual(await ask({ ...good, sub: 'user-42', scope: 'sluice:admin  b ' }), identity)
  const dotted = { 'tenant.id': 'acme', 'module.id': 'shop', exp: 2_000 }
  assert.deepEqual(await ask({ ...dotted, sub: 'user-42', scope: ['sluice:admin', 'b', 7, ''] }), identity)
  const own = setUp({
    claims: { tenant: 'https://acme.example/org', module: 'app.name.short', scope: 'scp' },
  })
  const { tenant, module, scopes } = await own.ask({
    'https://acme.example/org': 'Ünïcode & Söhne',
    app: { name: { short: 'm' } },
    scp: 'x',
    scope: 'sluice:admin',
    exp: 2_000,
  })
  assert.deepEqual([tenant, module, [...scopes]], ['Ünïcode & Söhne', 'm', ['x']])
})

test('a token without a valid tenant or module is refused with the reason', async () => {
  const { ask } = setUp()
  const { tenant: _, ...noTenant } = good
  const cases: readonly (readonly [object, string])[] = [
    [noTenant, 'The token lacks the claim tenant.id.'],
    [{ ...good, tenant: 'acme' }, 'The token lacks the claim tenant.id.'],
    [{ ...good, tenant: null }, 'The token lacks the claim tenant.id.'],
    [{ ...good, module: [] }, 'The token lacks the claim module.id.'],
    ...['', ' ', 'a\u0000', 'a\nb', 'a\ud800', 'a'.repeat(257), 7, null, ['a'], { id: 'a' }].map(
      (id) =>
        [
          { ...good, module: { id } },
          'The claim module.id of the token is not a text of 1 to 256 printable characters.',
        ] as const,
    ),
  ]
  for (const [claims, detail] of cases) {
    await assert.rejects(ask(claims), (error) => {
      assert.ok(error instanceof SluiceError)
      assert.deepEqual([error.code, error.message], ['UNAUTHENTICATED', detail], JSON.stringify(claims))
      return true
    })
  }
})

test('no claim is read from a prototype', async () => {
  const { ask } = setUp({ claims: { ...names, tenant: 'constructor.name', module: '__proto__.x' } })
  await assert.rejects(ask({ exp: 2_000 }), /lacks the claim constructor.name/)
})

test('a token is verified once a minute, and never accepted beyond its expiry', async () => {
  const { ask, state } = setUp()
  for (let count = 0; count < 5; count += 1) await ask(good)
  assert.equal(state.verified, 1)
  state.now += 59_999
  await ask(good)
  assert.equal(state.verified, 1)
  state.now += 1
  await ask(good)
  assert.equal(state.verified, 2)
  state.now = 1_999_999
  await ask(good)
  assert.equal(state.verified, 3)
  state.now = 2_000_000
  await ask(good)
  assert.equal(state.verified, 4, 'its end has come: those who know decide')
})

test('a refused token is verified again, and the least recently used token is forgotten', async () => {
  const { ask, state } = setUp({ rememberedMax: 2 })
  for (let count = 1; count <= 3; count += 1) {
    await assert.rejects(ask({ exp: 2_000 }))
    assert.equal(state.verified, count)
  }
  state.verified = 0
  const [a, b, c] = ['a', 'b', 'c'].map((jti) => ({ ...good, jti })) as [object, object, object]
  for (const claims of [a, b, a, c, a]) await ask(claims)
  assert.equal(state.verified, 3, 'a was seen in between')
  await ask(b)
  assert.equal(state.verified, 4)
})

for (const [name, authorization, challenge] of [
  ['nothing', undefined, undefined],
  ['an empty header', '', undefined],
  ['the scheme alone', 'Bearer ', 'Bearer error="invalid_token"'],
  ['another scheme', 'Basic YTpi', 'Bearer error="invalid_token"'],
  ['two tokens', 'Bearer a b', 'Bearer error="invalid_token"'],
  ['a token in quotes', 'Bearer "a"', 'Bearer error="invalid_token"'],
] as const) {
  test(`a malformed token is refused before any key is used: ${name}`, () => {
    const { authenticate, state } = setUp()
    assert.throws(
      () => authenticate({ headers: authorization === undefined ? {} : { authorization } }),
      (error) => {
        assert.ok(error instanceof SluiceError)
        assert.equal(error.code, 'UNAUTHENTICATED')
        if (challenge === undefined) assert.equal(error.challenge, undefined)
        else assert.ok(error.challenge?.startsWith(challenge))
        return true
      },
    )
    assert.equal(state.verified, 0)
  })
}

test('the authentication scheme is case-insensitive', async () => {
  const { authenticate } = setUp()
  const token = Buffer.from(JSON.stringify(good)).toString('base64url')
  const { tenant } = await authenticate({ headers: { authorization: `bEARER   ${token}` } })
  assert.equal(tenant, 'acme')
})

test('the tenant of a token is known once it was verified, and not before', async () => {
  const { authenticate, ask } = setUp()
  const token = Buffer.from(JSON.stringify(good)).toString('base64url')
  const request = { headers: { authorization: `Bearer ${token}` } }
  assert.equal(authenticate.tenantOf!(request), undefined)
  await ask(good)
  assert.equal(authenticate.tenantOf!(request), 'acme')
  for (const authorization of [undefined, '', 'Basic YTpi', `Bearer ${token}x`, 'Bearer a b']) {
    assert.equal(authenticate.tenantOf!({ headers: { authorization } }), undefined)
  }
})
