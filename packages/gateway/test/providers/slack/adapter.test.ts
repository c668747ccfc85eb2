import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { exerciseProvider, someMessage } from '../../../src/conformance/provider.ts'
import type { Account, Message } from '../../../src/ports.ts'
import { createSlackProvider } from '../../../src/providers/slack/adapter.ts'
import { blameOf, openAnswers } from '../answers.ts'
import { openSandboxCalls, type SandboxCalls } from '../sandbox-calls.ts'
import { openRig, overApi } from '../sandbox-rig.ts'

const bot = (url: string): Account => ({ id: 'a1', url, secret: 'xoxb-canary', options: {} })
const webhook = (url: string): Account => ({ id: 'a2', url: `${url}/services/T1/B1/canary`, options: {} })
const text = (patch: Partial<Message> = {}): Message =>
  someMessage('slack', {
    to: { id: 'user-1', slackChannel: 'C012AB3CD' },
    content: { text: 'Grüße' },
    ...patch,
  })

for (const [name, account, isAddressed] of [
  ['slack with a bot token', bot, true],
  ['slack by an incoming webhook', webhook, false],
] as const) {
  exerciseProvider(name, (deadlineMs) => openRig(createSlackProvider({ deadlineMs }), account), {
    channel: 'slack',
    ...overApi,
    checksAddress: isAddressed,
    tellsAddress: isAddressed,
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

  it('posts a text, and never shows the address of the webhook', async () => {
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

/** https://docs.slack.dev/reference/methods/chat.postMessage#errors */
const ofBot: Readonly<Record<string, readonly string[]>> = {
  account: [
    'not_allowed_token_type',
    'accesslimited',
    'invalid_auth',
    'account_inactive',
    'two_factor_setup_required',
    'enterprise_is_restricted',
    'method_deprecated',
    'team_added_to_org',
    'request_timeout',
    'service_unavailable',
    'something_of_next_year',
  ],
  unknown: ['fatal_error', 'internal_error'],
  address: ['channel_not_found', 'is_archived', 'not_in_channel', 'user_not_found'],
  message: ['no_text', 'msg_too_long', 'invalid_blocks', 'too_many_attachments', 'invalid_arguments'],
  recipient: ['restricted_action', 'restricted_action_read_only_channel'],
  rate_limited: ['ratelimited', 'message_limit_exceeded'],
}
/** https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks#handling_errors */
const ofWebhook: Readonly<Record<string, readonly (readonly [number, string])[]>> = {
  account: [
    [404, 'no_service'],
    [404, 'no_service_id'],
    [410, 'channel_is_archived'],
    [404, 'channel_not_found'],
    [400, 'user_not_found'],
    [404, 'no_team'],
    [403, 'team_disabled'],
    [404, 'no_active_hooks'],
    [403, 'action_prohibited'],
    [403, 'posting_to_general_channel_denied'],
    [403, 'invalid_token'],
    [500, 'rollup_error'],
    [404, '<html>Not Found</html>'],
  ],
  unknown: [[500, 'fatal_error']],
  message: [
    [400, 'invalid_payload'],
    [400, 'no_text'],
    [400, 'too_many_attachments'],
    [413, 'whatever'],
  ],
}

describe('a refusal by slack', () => {
  for (const [blame, words] of Object.entries(ofBot)) {
    it(`to a bot is the fault of: ${blame}`, async (t) => {
      const answers = await openAnswers(createSlackProvider(), bot, text)
      t.after(() => answers.close())
      for (const error of words) {
        const result = await answers.to({ body: JSON.stringify({ ok: false, error }) })
        assert.equal(blameOf(result), blame, error)
      }
    })
  }

  for (const [blame, said] of Object.entries(ofWebhook)) {
    it(`to a webhook is the fault of: ${blame}`, async (t) => {
      const answers = await openAnswers(createSlackProvider(), webhook, text)
      t.after(() => answers.close())
      for (const [status, body] of said)
        assert.equal(blameOf(await answers.to({ status, body })), blame, `${status} ${body}`)
    })
  }

  it('to a bot that is truncated, or not Slack’s, is an unknown outcome or a failure', async (t) => {
    const answers = await openAnswers(createSlackProvider(), bot, text)
    t.after(() => answers.close())
    assert.equal(blameOf(await answers.to({ body: '{"ok": tr' })), 'unknown')
    assert.equal(blameOf(await answers.to({ status: 403, body: '<html>proxy</html>' })), 'account')
    assert.equal(
      blameOf(await answers.to({ status: 500, body: '{"ok":false,"error":"fatal_error"}' })),
      'unknown',
    )
  })
})

describe('the text that slack shows', () => {
  for (const [name, account] of [
    ['a bot', bot],
    ['a webhook', webhook],
  ] as const) {
    it(`for a text by ${name} is the text, and notifies no channel`, async (t) => {
      const content = { text: 'Tom & <!channel> <https://evil.example|bank> > &lt;' }
      const answers = await openAnswers(createSlackProvider(), account, () => text({ content }))
      t.after(() => answers.close())
      await answers.to({ body: '{"ok":true}' })
      const { text: sent } = JSON.parse(answers.bodies()[0]!) as { text: string }
      assert.equal(sent, 'Tom &amp; &lt;!channel&gt; &lt;https://evil.example|bank&gt; &gt; &amp;lt;')
    })
  }

  it('for a template in mrkdwn keeps its markup', async (t) => {
    const content = { text: 'plain', mrkdwn: '<https://shop.example|*Shop*> &amp; more' }
    const answers = await openAnswers(createSlackProvider(), bot, () => text({ content }))
    t.after(() => answers.close())
    await answers.to({ body: '{"ok":true}' })
    assert.equal((JSON.parse(answers.bodies()[0]!) as { text: string }).text, content.mrkdwn)
  })
})
