/** Calls of a webhook that are authentic once: their signature does not cover what they say. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { createMailgunForm } from '../../src/feedback/forms/mailgun.ts'
import { createWebhooks, type Webhooks } from '../../src/feedback/webhooks.ts'
import type { Peers } from '../../src/ports/fleet.ts'
import { jsonCall, mailgunBody } from './signers.ts'

const now = Date.UTC(2026, 10, 28, 12)
const call = (event: object, token: string) => jsonCall(mailgunBody(event, now, 'key-1', token))

/** Processes that hear what the others tell. */
function processes(count: number, report: () => Promise<void>) {
  const listeners: Parameters<Peers['listen']>[1][] = []
  return Array.from({ length: count }, (_, own) =>
    createWebhooks({
      accounts: ['one', 'two'].map((account) => ({
        ...{ channel: 'email', account, form: 'mailgun' },
        read: createMailgunForm('key-1'),
      })),
      feedback: { report },
      clock: { now: () => now },
      onRefused: () => {},
      peers: {
        tell(_topic, message) {
          for (const [index, listener] of listeners.entries()) if (index !== own) listener(message, `p${own}`)
        },
        listen(_topic, listener) {
          listeners[own] = listener
          return () => {}
        },
      },
    }),
  )
}

const isReplayed = (error: unknown): boolean =>
  error instanceof SluiceError && error.code === 'UNAUTHENTICATED' && /was there before/.test(error.message)

test('a token is taken once for its account, whichever process had it, and also with another event', async () => {
  const [first, second] = processes(2, async () => {}) as [Webhooks, Webhooks]
  assert.equal(await first.take('email', 'one', call({ event: 'delivered' }, 'a')), 1)
  for (const each of [first, second])
    await assert.rejects(each.take('email', 'one', call({ event: 'complained' }, 'a')), isReplayed)
  assert.equal(await second.take('email', 'two', call({ event: 'delivered' }, 'a')), 1)
  assert.equal(await second.take('email', 'one', call({ event: 'delivered' }, 'b')), 1)
})

test('a call that could not be carried out may come again', async () => {
  let isAway = true
  const [only] = processes(1, async () => {
    if (isAway) throw new SluiceError('STORE_UNAVAILABLE', 'away')
  }) as [Webhooks]
  await assert.rejects(only.take('email', 'one', call({ event: 'delivered' }, 'a')), /away/)
  isAway = false
  assert.equal(await only.take('email', 'one', call({ event: 'delivered' }, 'a')), 1)
})

test('a token is still known when other secrets are in force', async () => {
  const [only] = processes(1, async () => {}) as [Webhooks]
  await only.take('email', 'one', call({ event: 'delivered' }, 'a'))
  only.replace([{ channel: 'email', account: 'one', form: 'mailgun', read: createMailgunForm('key-1') }])
  await assert.rejects(only.take('email', 'one', call({ event: 'delivered' }, 'a')), isReplayed)
})
