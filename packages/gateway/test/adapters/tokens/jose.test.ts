import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { test } from 'node:test'
import { createTokens, type TokenKeys } from '../../../src/adapters/tokens/jose.ts'
import { SluiceError } from '../../../src/errors.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'
import { algorithms, audience, claims, createSigner, issuer, type Signer, sign } from '../../tokens.ts'

const start = Date.UTC(2026, 10, 21, 12)
const second = 1_000

function keysOf(signers: readonly Signer[]): TokenKeys {
  return signers[0]!.algorithm === 'HS256'
    ? { kind: 'secrets', secrets: signers.map(({ publicKey }) => publicKey) }
    : {
        kind: 'public',
        keys: signers.map(({ algorithm, publicKey }) => ({ algorithm, key: createPublicKey(publicKey) })),
      }
}

function tokensFor(...signers: readonly Signer[]) {
  const clock = createVirtualClock(start)
  return {
    clock,
    tokens: createTokens({
      keys: keysOf(signers),
      issuer,
      audience,
      algorithms: signers.map(({ algorithm }) => algorithm),
      clock,
    }),
  }
}

const says = (detail: string) => (error: unknown) => {
  assert.ok(error instanceof SluiceError)
  assert.equal(error.code, 'UNAUTHENTICATED')
  assert.equal(error.message, detail)
  assert.equal(error.challenge, `Bearer error="invalid_token", error_description="${detail}"`)
  return true
}

for (const algorithm of algorithms) {
  test(`${algorithm}: a good token gives its claims`, async () => {
    const signer = createSigner(algorithm)
    const { tokens } = tokensFor(signer)
    const good = claims({ sub: 'user-42' }, start)
    assert.deepEqual(await tokens.verify(sign(signer, good)), good)
    await tokens.verify(sign(signer, { ...good, aud: ['other', audience] }))
  })

  test(`${algorithm}: both keys are accepted during a rotation`, async () => {
    const [one, two] = [createSigner(algorithm, 'one'), createSigner(algorithm, 'two')]
    const { tokens } = tokensFor(one, two)
    for (const signer of [one, two]) await tokens.verify(sign(signer, claims({}, start)))
    const third = createSigner(algorithm, 'three')
    await assert.rejects(
      tokens.verify(sign(third, claims({}, start))),
      says('The token is not signed with a key that is known here.'),
    )
  })
}

test('keys of several kinds work side by side', async () => {
  const signers = [createSigner('RS256'), createSigner('ES256'), createSigner('EdDSA')]
  const { tokens } = tokensFor(...signers)
  for (const signer of signers) await tokens.verify(sign(signer, claims({}, start)))
})

test('a token expires at its second, by the clock of the gateway, and is valid up to 5 s early', async () => {
  const signer = createSigner('HS256')
  const { tokens, clock } = tokensFor(signer)
  const token = sign(signer, { ...claims({}, start), exp: start / 1_000 + 60 })
  await clock.runUntil(start + 60 * second - 1)
  await tokens.verify(token)
  await clock.runUntil(start + 60 * second)
  await assert.rejects(tokens.verify(token), says('The token has expired.'))
  const now = (start + 60 * second) / 1_000
  const from = (nbf: number): string => sign(signer, { ...claims({}, now * 1_000), nbf })
  await tokens.verify(from(now + 5))
  await assert.rejects(tokens.verify(from(now + 6)), says('The token is not valid yet.'))
})

test('a refusal names the failed check, in fixed words', async () => {
  const signer = createSigner('ES256')
  const { tokens } = tokensFor(signer)
  const good = claims({}, start)
  const cases: readonly (readonly [object, string])[] = [
    [{ iss: 'x' }, 'The token is from another issuer.'],
    [{ aud: 'x' }, 'The token is for another audience.'],
    [{ exp: undefined }, 'The token has no valid time at which it ends (exp).'],
    [{ exp: 'tomorrow' }, 'The token has no valid time at which it ends (exp).'],
    [{ nbf: 'today' }, 'A claim of the token is not valid.'],
  ]
  for (const [claim, detail] of cases)
    await assert.rejects(tokens.verify(sign(signer, { ...good, ...claim })), says(detail))
  await assert.rejects(
    tokens.verify(sign(signer, good, { alg: 'HS256' })),
    says('The token is signed with an algorithm that is not allowed here.'),
  )
  await assert.rejects(tokens.verify('a.b.c'), says('This is no valid token.'))
})
