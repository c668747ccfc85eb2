/** The path of an account's url is kept: many call their provider through a gateway of their own. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someMessage } from '../../../src/conformance/provider.ts'
import type { Account, Clock, Presence } from '../../../src/ports.ts'
import { type LoadedProvider, loadProvider } from '../../../src/providers/adapters.ts'
import { createHttpSink } from '../../sinks/http.ts'

const clock = { now: () => Date.now() } as Clock
const from = 'shop@example.com'
const accounts: readonly (readonly [
  LoadedProvider,
  'email' | 'sms' | 'telegram' | 'slack',
  Partial<Account>,
  string,
])[] = [
  ['sendgrid', 'email', { secret: 'SG.key', options: { from } }, '/v3/mail/send'],
  [
    'ses',
    'email',
    { secret: 'key', options: { from, accessKeyId: 'AKIA1', region: 'eu-south-1' } },
    '/v2/email/outbound-emails',
  ],
  [
    'twilio',
    'sms',
    { secret: 'token', options: { from: '+15550100200', sid: `AC${'1'.repeat(32)}` } },
    `/2010-04-01/Accounts/AC${'1'.repeat(32)}/Messages.json`,
  ],
  ['telegram', 'telegram', { secret: `1:${'a'.repeat(30)}` }, `/bot1:${'a'.repeat(30)}/sendMessage`],
  ['slack', 'slack', { secret: 'xoxb-1' }, '/api/chat.postMessage'],
]

for (const [name, channel, account, path] of accounts)
  test(`${name} is called below the path of the url`, async (t) => {
    const sink = await createHttpSink()
    const provider = await loadProvider(name, {
      clock,
      presence: {} as Presence,
      allowPrivate: true,
      deadlineMs: 2_000,
    })
    t.after(async () => {
      await provider.close()
      await sink.close()
    })
    for (const base of ['/egress/x', '/egress/x/'])
      await provider.send(
        someMessage(channel),
        { id: 'a1', url: sink.url + base, options: {}, ...account },
        AbortSignal.timeout(5_000),
      )
    assert.deepEqual(
      sink.requests.map((request) => request.path),
      [`/egress/x${path}`, `/egress/x${path}`],
    )
  })
