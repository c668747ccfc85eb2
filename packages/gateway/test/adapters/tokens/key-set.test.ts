/** The keys of an issuer over a real socket, with an issuer that changes them, fails and hangs; time is virtual. */
import assert from 'node:assert/strict'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { createTokens } from '../../../src/adapters/tokens/jose.ts'
import { type ErrorCode, SluiceError } from '../../../src/errors.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'
import { audience, claims, createSigner, issuer, type Signer, sign } from '../../tokens.ts'

interface Issuer {
  readonly url: string
  requests: number
  answer: (response: ServerResponse) => void
}

async function startIssuer(t: TestContext): Promise<Issuer> {
  const server = createServer((_request, response) => {
    state.requests += 1
    state.answer(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const state = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`,
    requests: 0,
    answer: (_response: ServerResponse): void => {},
  }
  return state
}

const second = 1_000
const start = Date.UTC(2026, 10, 21, 12)

const set = (keys: Readonly<Record<string, Signer>>) => (response: ServerResponse) =>
  void response.end(
    JSON.stringify({ keys: Object.entries(keys).map(([kid, { publicJwk }]) => ({ ...publicJwk, kid })) }),
  )
const broken = (response: ServerResponse): void => void response.writeHead(500).end()

async function setUp(t: TestContext, timeoutMs = 5_000) {
  const issuing = await startIssuer(t)
  const clock = createVirtualClock(start)
  const troubles: unknown[] = []
  const tokens = createTokens({
    keys: { kind: 'jwks', url: issuing.url },
    issuer,
    audience,
    algorithms: ['RS256', 'ES256', 'EdDSA'],
    clock,
    keySet: { timeoutMs, onError: (error) => troubles.push(error) },
  })
  t.after(() => tokens.close())
  let at = start
  return {
    issuing,
    troubles,
    async pass(ms: number) {
      at += ms
      await clock.runUntil(at)
    },
    verify: (signer: Signer, kid?: string) =>
      tokens.verify(sign(signer, claims({}, clock.now()), kid === undefined ? {} : { kid })),
  }
}

const refusedAs = (code: ErrorCode) => (error: unknown) => error instanceof SluiceError && error.code === code

test('many tokens at once fetch the keys once, and each algorithm passes', async (t) => {
  const { issuing, verify } = await setUp(t)
  const signers = { r: createSigner('RS256'), e: createSigner('ES256'), d: createSigner('EdDSA') }
  issuing.answer = set(signers)
  const all = Object.entries(signers).flatMap(([kid, signer]) =>
    Array.from({ length: 10 }, () => verify(signer, kid)),
  )
  await Promise.all(all)
  assert.equal(issuing.requests, 1)
})

test('a new key is fetched when the first token names it, and unknown key ids cause no more fetches than the cool-down allows', async (t) => {
  const { issuing, verify, pass } = await setUp(t)
  const [first, second2] = [createSigner('ES256'), createSigner('ES256')]
  issuing.answer = set({ a: first })
  await verify(first, 'a')
  await pass(31 * second)
  issuing.answer = set({ a: first, b: second2 })
  await verify(second2, 'b')
  assert.equal(issuing.requests, 2)
  const foreign = createSigner('ES256')
  for (let count = 0; count < 50; count += 1)
    await assert.rejects(verify(foreign, `unknown-${count}`), refusedAs('UNAUTHENTICATED'))
  assert.equal(issuing.requests, 2, 'within the cool-down nothing is fetched')
  await pass(30 * second)
  await assert.rejects(verify(foreign, 'unknown'), refusedAs('UNAUTHENTICATED'))
  assert.equal(issuing.requests, 3)
})

test('known keys stay in use while the issuer is down; an unknown key is reported as unavailable', async (t) => {
  const { issuing, verify, pass, troubles } = await setUp(t)
  const [known, fresh] = [createSigner('RS256'), createSigner('RS256')]
  issuing.answer = set({ a: known })
  await verify(known, 'a')
  issuing.answer = broken
  await pass(3_600 * second)
  await verify(known, 'a')
  await assert.rejects(verify(fresh, 'b'), refusedAs('KEYS_UNAVAILABLE'))
  await verify(known, 'a')
  assert.ok(troubles.length >= 1, 'somebody is told')
  issuing.answer = set({ a: known, b: fresh })
  await pass(30 * second)
  await verify(fresh, 'b')
})

test('a revoked key is dropped at the next fetch', async (t) => {
  const { issuing, verify, pass } = await setUp(t)
  const [old, now] = [createSigner('EdDSA'), createSigner('EdDSA')]
  issuing.answer = set({ old, now })
  await verify(old, 'old')
  issuing.answer = set({ now })
  await pass(600 * second)
  await verify(now, 'now')
  // The keys are fetched beside the verification.
  const end = performance.now() + 10_000
  const isTaken = (): Promise<boolean> => verify(old, 'old').then(Boolean, () => false)
  while (await isTaken()) {
    assert.ok(performance.now() < end, 'it is taken still')
    await new Promise((resolve) => setImmediate(resolve))
  }
  await assert.rejects(verify(old, 'old'), refusedAs('UNAUTHENTICATED'))
})

test('a token that does not name its key is tried with each that fits', async (t) => {
  const { issuing, verify } = await setUp(t)
  const [one, two] = [createSigner('ES256'), createSigner('ES256')]
  issuing.answer = set({ a: one, b: two, c: createSigner('RS256') })
  await verify(two)
  await verify(one)
  await assert.rejects(verify(createSigner('ES256')), refusedAs('UNAUTHENTICATED'))
})

test('before the first successful fetch no token is refused for good', async (t) => {
  const { issuing, verify, pass } = await setUp(t)
  const signer = createSigner('ES256')
  issuing.answer = broken
  await assert.rejects(verify(signer, 'a'), (error) => {
    assert.ok(error instanceof SluiceError)
    assert.deepEqual([error.code, error.status, error.retryAfterMs], ['KEYS_UNAVAILABLE', 503, 30_000])
    return true
  })
  issuing.answer = set({ a: signer })
  await assert.rejects(verify(signer, 'a'), refusedAs('KEYS_UNAVAILABLE'))
  await pass(30 * second)
  await verify(signer, 'a')
  assert.equal(issuing.requests, 2)
})

for (const [name, answer] of Object.entries<(response: ServerResponse) => void>({
  'does not end its answer': (response) => void response.writeHead(200).write('{"keys":['),
  'sends another thing': (response) => void response.end('<html></html>'),
  'sends no list': (response) => void response.end('{"keys":{}}'),
  'sends more than anybody publishes': (response) => void response.end(`"${'a'.repeat(2_000_000)}"`),
  'sends the reader elsewhere': (response) =>
    response.req.url === '/elsewhere'
      ? set({ a: createSigner('EdDSA') })(response)
      : void response.writeHead(302, { location: '/elsewhere' }).end(),
})) {
  test(`an issuer that ${name} gives no keys, in time`, async (t) => {
    const { issuing, verify, troubles } = await setUp(t, 200)
    issuing.answer = answer
    await assert.rejects(verify(createSigner('EdDSA'), 'a'), refusedAs('KEYS_UNAVAILABLE'))
    assert.equal(troubles.length, 1)
  })
}

test('a secret among published keys is never used, nor a key that is too short', async (t) => {
  const { issuing, verify } = await setUp(t)
  const { generateKeyPairSync } = await import('node:crypto')
  const pair = generateKeyPairSync('rsa', { modulusLength: 1024 })
  const short: Signer = {
    algorithm: 'RS256',
    key: pair.privateKey,
    publicKey: '',
    publicJwk: pair.publicKey.export({ format: 'jwk' }),
  }
  const hmac = createSigner('HS256')
  const octets = { kty: 'oct', k: Buffer.from(String(hmac.key)).toString('base64url') }
  issuing.answer = set({ short, shared: { ...hmac, publicJwk: octets } })
  await assert.rejects(verify(short, 'short'), refusedAs('UNAUTHENTICATED'))
  await assert.rejects(verify(hmac, 'shared'), refusedAs('UNAUTHENTICATED'))
})
