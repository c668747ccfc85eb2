import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createTelegramProvider } from '../../../src/adapters/providers/telegram.ts'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account, Message } from '../../../src/ports.ts'
import { openSandboxCalls, type SandboxCalls } from './sandbox-calls.ts'
import { openRig } from './sandbox-rig.ts'

const token = '123456:canary-canary-canary-canary'
const account = (url: string): Account => ({ id: 'a1', url, secret: token, options: {} })
const text = (patch: Partial<Message> = {}): Message =>
  someMessage('telegram', {
    to: { id: 'user-1', telegramChatId: '-100123' },
    content: { text: 'Grüße' },
    ...patch,
  })

exerciseProvider('telegram', () => openRig(createTelegramProvider({ deadlineMs: 2_000 }), account), {
  channel: 'telegram',
  deadlineMs: 2_000,
  tellsUnknown: true,
  tellsWhenCut: false,
  tellsRetryAfter: true,
  checksAddress: true,
  tellsLeaving: true,
  remote: true,
})

describe('telegram', () => {
  let calls: SandboxCalls
  const provider = createTelegramProvider()
  before(async () => {
    calls = await openSandboxCalls(provider, account)
  })
  after(() => calls.close())

  it('sends a text to a chat', async () => {
    const result = await calls.send(text())
    assert.equal(result.outcome, 'delivered')
    const { path, body } = calls.last()
    assert.equal(path, `/bot${token}/sendMessage`)
    assert.deepEqual(JSON.parse(body), { chat_id: '-100123', text: 'Grüße' })
  })

  it('takes how long to wait from the parameters', async () => {
    const result = await calls.send(text(), 'rate_limit')
    assert.deepEqual([result.outcome, (result as { retryAfter: string }).retryAfter], ['rate_limited', '30'])
  })

  it('takes a person who has blocked the bot for a dead address, and a withdrawn token for the account’s failure', async () => {
    const blocked = await calls.send(text(), 'reject_address')
    assert.equal(blocked.outcome === 'rejected' && blocked.invalidAddress, true)
    assert.equal((await calls.send(text(), 'suspend')).outcome, 'failed')
  })

  it('never shows the token, which is part of the address', async () => {
    const gone = createTelegramProvider()
    const results = [
      await gone.send(text(), account('http://127.0.0.1:1'), AbortSignal.timeout(2_000)),
      await gone.send(text(), account('http://not a host'), AbortSignal.timeout(2_000)),
      await calls.send(text(), 'reset'),
      await calls.send(text(), 'suspend'),
    ]
    assert.doesNotMatch(JSON.stringify(results), /canary/)
    await assert.rejects(
      async () => gone.warm?.({ id: 'a1', secret: 'canary', options: {} }),
      (error: Error) => !/canary/.test(error.message),
    )
    await gone.close()
  })

  for (const telegramChatId of ['', 'abc', '12/../34', '1'.repeat(21)]) {
    it(`asks nobody for the chat “${telegramChatId}”`, async () => {
      const result = await calls.send(text({ to: { id: 'u', telegramChatId } }))
      assert.equal(result.outcome === 'rejected' && result.invalidAddress, true)
    })
  }
})
