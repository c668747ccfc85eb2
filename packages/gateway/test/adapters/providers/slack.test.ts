import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createSlackProvider } from '../../../src/adapters/providers/slack.ts'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account, Message } from '../../../src/ports.ts'
import { openSandboxCalls, type SandboxCalls } from './sandbox-calls.ts'
import { openRig } from './sandbox-rig.ts'

const bot = (url: string): Account => ({ id: 'a1', url, secret: 'xoxb-canary', options: {} })
const webhook = (url: string): Account => ({ id: 'a2', url: `${url}/services/T1/B1/canary`, options: {} })
const text = (patch: Partial<Message> = {}): Message =>
  someMessage('slack', {
    to: { id: 'user-1', slackChannel: 'C012AB3CD' },
    content: { text: 'Grüße' },
    ...patch,
  })

for (const [name, account, checksAddress] of [
  ['slack with a bot token', bot, true],
  ['slack by an incoming webhook', webhook, false],
] as const) {
  exerciseProvider(name, () => openRig(createSlackProvider({ deadlineMs: 2_000 }), account), {
    channel: 'slack',
    deadlineMs: 2_000,
    tellsUnknown: true,
    tellsWhenCut: false,
    tellsRetryAfter: true,
    checksAddress,
    tellsLeaving: true,
    remote: true,
  })
}

describe('slack with a bot token', () => {
  let calls: SandboxCalls
  before(async () => {
    calls = await openSandboxCalls(createSlackProvider(), bot)
  })
  after(() => calls.close())

  it('posts a text into a channel', async () => {
    const result = await calls.send(text())
    assert.match((result as { providerMessageId: string }).providerMessageId, /^\d+\.\d+$/)
    const { path, headers, body } = calls.last()
    assert.equal(path, '/api/chat.postMessage')
    assert.equal(headers.authorization, 'Bearer xoxb-canary')
    assert.deepEqual(JSON.parse(body), { channel: 'C012AB3CD', text: 'Grüße' })
  })

  it('reads refusals that are answered with 200', async () => {
    const dead = await calls.send(text(), 'reject_address')
    assert.equal(dead.outcome === 'rejected' && dead.invalidAddress, true)
    const suspended = await calls.send(text(), 'suspend')
    assert.equal(suspended.outcome, 'failed')
    assert.doesNotMatch(JSON.stringify([dead, suspended]), /canary/)
  })
})

describe('slack by an incoming webhook', () => {
  let calls: SandboxCalls
  before(async () => {
    calls = await openSandboxCalls(createSlackProvider(), webhook)
  })
  after(() => calls.close())

  it('posts a text, and shows the address of the webhook nowhere', async () => {
    assert.equal((await calls.send(text({ to: { id: 'user-1' } }))).outcome, 'delivered')
    assert.deepEqual(JSON.parse(calls.last().body), { text: 'Grüße' })
    const results = [await calls.send(text(), 'suspend'), await calls.send(text(), 'reset')]
    assert.deepEqual(
      results.map(({ outcome }) => outcome),
      ['failed', 'unknown'],
    )
    assert.doesNotMatch(JSON.stringify(results), /canary/)
  })
})
