import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import { test } from 'node:test'
import {
  createGuardedLookup,
  PrivateAddressError,
  refusePrivateLiteral,
} from '../../../src/providers/transport/guarded-lookup.ts'

/** A resolver that answers with these addresses, one list a call, the last one for ever. */
function resolver(...answers: readonly (readonly string[])[]) {
  let calls = 0
  return ((_host: string, _options: object, callback: (error: null, addresses: LookupAddress[]) => void) => {
    const answer = answers[Math.min(calls, answers.length - 1)]!
    calls += 1
    callback(
      null,
      answer.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )
  }) as never
}

type Found = string | readonly LookupAddress[]
const find = (lookup: ReturnType<typeof createGuardedLookup>, all = false): Promise<Found> =>
  new Promise((resolve, reject) => {
    lookup('hook.example', { all }, (error, address) => (error ? reject(error) : resolve(address as Found)))
  })

test('a public address is passed on, alone or as a list', async () => {
  const lookup = createGuardedLookup(resolver(['93.184.216.34', '2606:2800::1']))
  assert.equal(await find(lookup), '93.184.216.34')
  assert.deepEqual((await find(lookup, true)).length, 2)
})

test('a name with one private address is refused as a whole', async () => {
  for (const bad of [
    '127.0.0.1',
    '10.1.2.3',
    '169.254.169.254',
    '::1',
    'fd00::1',
    '::ffff:127.0.0.1',
    '64:ff9b::7f00:1',
  ]) {
    await assert.rejects(find(createGuardedLookup(resolver([bad]))), PrivateAddressError)
    await assert.rejects(
      find(createGuardedLookup(resolver(['93.184.216.34', bad])), true),
      PrivateAddressError,
    )
  }
})

test('a name without addresses is refused', async () => {
  await assert.rejects(find(createGuardedLookup(resolver([]))), PrivateAddressError)
})

test('a name of the private network is refused in the same words as one that does not exist', async () => {
  const unknown = ((_host: string, _options: object, callback: (error: Error) => void) =>
    callback(Object.assign(new Error('getaddrinfo ENOTFOUND hook.example'), { code: 'ENOTFOUND' }))) as never
  const said = (lookup: ReturnType<typeof createGuardedLookup>) =>
    find(lookup).then(
      () => 'found',
      (error: Error) => `${error.name}: ${error.message}`,
    )
  const inside = await said(createGuardedLookup(resolver(['10.1.2.3'])))
  assert.equal(await said(createGuardedLookup(unknown)), inside)
  assert.equal(inside, 'PrivateAddressError: hook.example does not lead to the public internet')
  const failing = ((_host: string, _options: object, callback: (error: Error) => void) =>
    callback(Object.assign(new Error('getaddrinfo EAI_AGAIN'), { code: 'EAI_AGAIN' }))) as never
  assert.equal(await said(createGuardedLookup(failing)), 'Error: getaddrinfo EAI_AGAIN', 'it is tried again')
})

test('a name that changes its address is judged at every connection', async () => {
  const lookup = createGuardedLookup(resolver(['93.184.216.34'], ['127.0.0.1']))
  assert.equal(await find(lookup), '93.184.216.34')
  await assert.rejects(find(lookup), PrivateAddressError)
})

test('a literal address is judged without a look-up', () => {
  for (const url of [
    'http://127.0.0.1/',
    'http://2130706433/',
    'http://0x7f000001/',
    'http://0177.0.0.1/',
    'http://127.1/',
    'http://[::1]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[fe80::1]/',
    'http://169.254.169.254/',
    'http://0/',
    'http://①②⑦.0.0.1/',
  ]) {
    assert.throws(() => refusePrivateLiteral(new URL(url).hostname), PrivateAddressError, url)
  }
  for (const url of ['http://93.184.216.34/', 'http://example.com/', 'http://[2606:2800::1]/']) {
    refusePrivateLiteral(new URL(url).hostname)
  }
})
