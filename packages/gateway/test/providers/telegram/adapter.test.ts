import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account, Message } from '../../../src/ports.ts'
import { createTelegramProvider } from '../../../src/providers/telegram/adapter.ts'
import { blameOf, openAnswers } from '../answers.ts'
import { openSandboxCalls, type SandboxCalls } from '../sandbox-calls.ts'
import { openRig, overApi } from '../sandbox-rig.ts'

const token = '123456:canary-canary-canary-canary'
const account = (url: string): Account => ({ id: 'a1', url, secret: token, options: {} })
const text = (patch: Partial<Message> = {}): Message =>
  someMessage('telegram', {
    to: { id: 'user-1', telegramChatId: '-100123' },
    content: { text: 'Grüße' },
    ...patch,
  })

exerciseProvider('telegram', (deadlineMs) => openRig(createTelegramProvider({ deadlineMs }), account), {
  channel: 'telegram',
  ...overApi,
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

  it('reads the retry delay from the parameters', async () => {
    const result = await calls.send(text(), 'rate_limit')
    assert.deepEqual([result.outcome, (result as { retryAfter: string }).retryAfter], ['rate_limited', '30'])
  })

  it('treats a recipient who has blocked the bot as an invalid address, and a revoked token as the account’s failure', async () => {
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
    it(`makes no call for the chat “${telegramChatId}”`, async () => {
      const result = await calls.send(text({ to: { id: 'u', telegramChatId } }))
      assert.equal(result.outcome === 'rejected' && result.invalidAddress, true)
    })
  }
})

describe('a refusal by telegram', () => {
  const said: readonly (readonly [blame: string, status: number, body: string])[] = [
    ['address', 403, '{"ok":false,"error_code":403,"description":"Forbidden: bot was blocked by the user"}'],
    ['address', 400, '{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}'],
    ['message', 400, '{"ok":false,"error_code":400,"description":"Bad Request: message is too long"}'],
    ['account', 401, '{"ok":false,"error_code":401,"description":"Unauthorized"}'],
    ['account', 403, '<html>the proxy forbids it</html>'],
    ['account', 400, 'Bad Request'],
    ['unknown', 200, '{"ok": tr'],
  ]
  for (const [blame, status, body] of said) {
    it(`as ${status} ${body.slice(-40)} is the fault of: ${blame}`, async (t) => {
      const answers = await openAnswers(createTelegramProvider(), account, text)
      t.after(() => answers.close())
      assert.equal(blameOf(await answers.to({ status, body })), blame)
    })
  }

  it('as too fast is the fault of the chat whose rate was exceeded, else of the bot', async (t) => {
    let now = Date.UTC(2026, 10, 22)
    let chat = '-1'
    const answers = await openAnswers(createTelegramProvider({ clock: { now: () => now } }), account, () =>
      text({ to: { id: 'u', telegramChatId: chat } }),
    )
    t.after(() => answers.close())
    const flood = {
      status: 429,
      body: '{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":40}}',
    }
    const endpoint = async (): Promise<string | undefined> => {
      const result = await answers.to(flood)
      assert.ok(result.outcome === 'rate_limited' && result.retryAfter === '40')
      return result.endpoint
    }
    assert.equal(await endpoint(), undefined)
    // A second one within a second.
    assert.equal(await endpoint(), 'telegram:-1')
    chat = '-2'
    assert.equal(await endpoint(), undefined)
    // Twenty a minute may pass, the next is too much for the group and for nobody else.
    chat = '-3'
    for (let count = 0; count < 20; count += 1) {
      now += 2_000
      await answers.to({ body: '{"ok":true,"result":{"message_id":1}}' })
    }
    now += 2_000
    assert.equal(await endpoint(), 'telegram:-3')
    chat = '-4'
    assert.equal(await endpoint(), undefined)
    chat = '-3'
    now += 60_000
    assert.equal(await endpoint(), undefined)
  })
})
