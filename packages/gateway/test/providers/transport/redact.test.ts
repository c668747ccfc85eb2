import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Account, Message, Provider, SendResult } from '../../../src/ports.ts'
import { redact } from '../../../src/providers/transport/redact.ts'

const said = async (detail: string | undefined, account: Partial<Account>): Promise<string | undefined> => {
  const result: SendResult = { outcome: 'delivered', ...(detail === undefined ? {} : { detail }) }
  const provider: Provider = {
    name: 'webhook',
    idempotent: false,
    channels: [],
    send: async () => result,
    close: async () => {},
  }
  const { signal } = new AbortController()
  const seen = await redact(provider).send({} as Message, { id: 'a', options: {}, ...account }, signal)
  return seen.detail
}

test('an address, a password or a key that a server repeats is masked', async () => {
  const url = 'https://user:p%40ssword@hooks.example.com/services/T01/B02?token=abcdefgh'
  assert.equal(await said('Cannot POST /services/T01/B02', { url }), 'Cannot POST (secret)')
  assert.equal(await said('Cannot POST /services/T01/B02?token=abcdefgh', { url }), 'Cannot POST (secret)')
  assert.equal(await said('token abcdefgh is unknown', { url }), 'token (secret) is unknown')
  assert.equal(await said('not with p@ssword', { url }), 'not with (secret)')
  const plain = Buffer.from('\0user\0p@ssword').toString('base64')
  assert.equal(await said(`535 AUTH PLAIN ${plain}`, { url }), '535 AUTH PLAIN (secret)')
  assert.equal(await said('key c2VjcmV0 is old', { secret: 'whsec_c2VjcmV0' }), 'key (secret) is old')
  const options = { from: 'shop@example.com', deeper: { apiKey: 'SG.1234' } }
  assert.equal(
    await said('SG.1234 may not send as shop@example.com', { options }),
    '(secret) may not send as shop@example.com',
  )
})

test('the rest of a detail is unchanged', async () => {
  for (const detail of [undefined, '', '200', '550 5.1.1 no such user at hooks.example.com'])
    assert.equal(await said(detail, { url: 'https://u:p@hooks.example.com/in', secret: 'abc' }), detail)
})
