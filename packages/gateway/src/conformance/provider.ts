/**
 * The conformance suite of the provider port: `exerciseProvider` runs it against a provider and a server on the other
 * side whose behaviour can be set. It asks only what the port promises: each outcome for its cause, nothing thrown,
 * nothing sent twice, and a connection that survives whatever one message met.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Channel } from '../model.ts'
import type { Account, Message, OnWritten, Provider, SendResult } from '../ports.ts'

/** The answer that the server gives from now on. */
export type OtherSide =
  | 'accept'
  /** Above the rate; the server asks for a retry after 7 seconds. */
  | 'rate_limit'
  /** Refused for good, because of the message. */
  | 'refuse'
  /** Refused for good, because the address does not exist. */
  | 'refuse_address'
  /** The server's own error. */
  | 'break'
  | 'hang'
  /** The connection is cut before the message was taken. */
  | 'reset'
  /** The message is taken, and the connection cut instead of an answer. */
  | 'reset_after_accept'

export interface ProviderRig {
  readonly provider: Provider
  readonly account: Account
  behave(side: OtherSide): void
  /** Closes every connection that is open but idle; absent where there are none. */
  hangUp?(): void
  /** Ids of the notifications that were taken, in the order of their arrival, repetitions included. */
  arrived(): readonly string[]
  /** Stops the server; from then on connections are refused. */
  closeServer(): Promise<void>
}

export interface ProviderCapabilities {
  readonly channel: Channel
  /** The longest time that the rig's provider waits for an answer, ms; tests of deadlines wait for so long. */
  readonly deadlineMs: number
  /** True when the provider can tell that a message may have been delivered. Else such a case is a failure. */
  readonly tellsUnknown: boolean
  /**
   * True when the provider can tell a connection that was cut before the message was taken from one that was cut
   * after.
   * @defaultValue true
   */
  readonly tellsWhenCut?: boolean
  /** True when the provider passes on the server's Retry-After. */
  readonly tellsRetryAfter: boolean
  /** True when the provider knows a missing or impossible address without a call. */
  readonly checksAddress: boolean
  /** True when the provider calls addresses of recipients, so that one may be wrong. @defaultValue true */
  readonly tellsAddress?: boolean
  /** True when the provider calls `leaving` when the last bytes go. */
  readonly tellsWritten: boolean
  /** True when the provider talks to a server that can be unreachable. */
  readonly remote: boolean
}

let made = 0

export function someMessage(channel: Channel, patch: Partial<Message> = {}): Message {
  made += 1
  const id = patch.id ?? `01PROVIDER${String(made).padStart(16, '0')}`
  return {
    id,
    tenant: 'acme',
    channel,
    category: 'product',
    to: {
      id: 'user-1',
      email: 'ada@example.com',
      phone: '+390612345678',
      pushToken: 'token-1',
      telegramChatId: '4711',
      slackChannel: 'C012AB3CD',
    },
    content: { subject: 'Grüße “Ada” – 你好 👋', text: 'A line\n.and a dot', html: '<p>A line</p>' },
    data: { post: 'p1' },
    attempt: 1,
    ...patch,
  }
}

const never = new AbortController().signal

/**
 * Registers the suite `name` with node:test.
 *
 * @param open - is given the time after which the provider gives up a call, ms: `deadlineMs` of its capabilities, and
 *   more in a test that keeps the machine busy for so long
 */
export function exerciseProvider(
  name: string,
  open: (deadlineMs: number) => Promise<ProviderRig>,
  capabilities: ProviderCapabilities,
): void {
  const { channel } = capabilities

  const test: Test = (title, body, deadlineMs = capabilities.deadlineMs) => {
    it(title, { timeout: 30_000 }, async () => {
      const rig = await open(deadlineMs)
      const send: Send = (message = someMessage(channel), signal = never, onWritten = undefined) =>
        rig.provider.send(message, rig.account, signal, onWritten)
      try {
        await body(rig, send)
      } finally {
        await rig.provider.close()
        await rig.closeServer()
      }
    })
  }

  describe(name, () => {
    describe('deliveries', () => deliveries(test, capabilities))
    describe('outcomes', () => outcomes(test, capabilities))
    describe('deadlines', () => deadlines(test, capabilities))
    describe('start and stop', () => beginningAndEnd(test, capabilities))
  })
}

type Send = (message?: Message, signal?: AbortSignal, onWritten?: OnWritten) => Promise<SendResult>
type Test = (
  title: string,
  body: (rig: ProviderRig, send: Send) => Promise<void>,
  deadlineMs?: number,
) => void

function is(result: SendResult, outcome: SendResult['outcome']): void {
  assert.equal(result.outcome, outcome, JSON.stringify(result))
}

/** Closes idle connections and lets the close arrive: a provider that meets them earlier has tests of its own. */
async function hangUp(rig: ProviderRig): Promise<void> {
  rig.hangUp?.()
  await new Promise((resolve) => setTimeout(resolve, 20))
  // After a stall the timer comes first: sockets are polled between it and this.
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** The deadline of a call among two hundred, ms: a busy machine takes seconds for all of them. */
const crowdMs = 25_000

function deliveries(test: Test, { channel, tellsWritten }: ProviderCapabilities): void {
  test('delivers a message once, and reports it', async (rig, send) => {
    const message = someMessage(channel)
    is(await send(message), 'delivered')
    assert.deepEqual(rig.arrived(), [message.id])
  })

  test(
    'delivers two hundred messages at once, each of them once',
    async (rig, send) => {
      const messages = Array.from({ length: 200 }, () => someMessage(channel))
      const results = await Promise.all(messages.map((message) => send(message)))
      for (const result of results) is(result, 'delivered')
      assert.deepEqual([...rig.arrived()].sort(), messages.map(({ id }) => id).sort())
    },
    crowdMs,
  )

  test('delivers a repetition with the same id, unless it is idempotent', async (rig, send) => {
    const message = someMessage(channel)
    is(await send(message), 'delivered')
    is(await send({ ...message, attempt: 2 }), 'delivered')
    assert.deepEqual(rig.arrived(), rig.provider.idempotent ? [message.id] : [message.id, message.id])
  })

  test('calls onWritten once, before the message has arrived', async (rig, send) => {
    for (let index = 0; index < 3; index += 1) {
      const arrivedWhenWritten: number[] = []
      is(
        await send(someMessage(channel), never, (part) => {
          if (part === undefined) arrivedWhenWritten.push(rig.arrived().length)
          return true
        }),
        'delivered',
      )
      assert.deepEqual(arrivedWhenWritten, tellsWritten ? [index] : [])
      await hangUp(rig)
    }
  })

  if (tellsWritten)
    test('sends nothing where onWritten answers false, on a new connection or a kept one', async (rig, send) => {
      for (const kept of [0, 1, 2]) {
        const late = await send(someMessage(channel), never, () => false)
        is(late, 'failed')
        assert.equal('maybeDelivered' in late, false, JSON.stringify(late))
        assert.equal(rig.arrived().length, kept)
        is(await send(), 'delivered')
        assert.equal(rig.arrived().length, kept + 1)
      }
    })

  if (tellsWritten) {
    test('writes nothing before onWritten has answered, on a new connection or a kept one', async (rig, send) => {
      for (const kept of [0, 1, 2]) {
        const asked = Promise.withResolvers<(mayBeWritten: boolean) => void>()
        const sending = send(
          someMessage(channel),
          never,
          (part) => part === 'envelope' || new Promise<boolean>((resolve) => asked.resolve(resolve)),
        )
        const answer = await asked.promise
        await new Promise((resolve) => setTimeout(resolve, 20))
        assert.equal(rig.arrived().length, kept)
        answer(true)
        is(await sending, 'delivered')
        assert.equal(rig.arrived().length, kept + 1)
      }
    })

    test('sends nothing where onWritten answers false later', async (rig, send) => {
      for (const kept of [0, 1, 2]) {
        const later: OnWritten = (part) =>
          part === 'envelope' || new Promise<boolean>((resolve) => setTimeout(resolve, 5, false))
        const late = await send(someMessage(channel), never, later)
        is(late, 'failed')
        assert.equal('maybeDelivered' in late, false, JSON.stringify(late))
        assert.equal(rig.arrived().length, kept)
        is(await send(), 'delivered')
      }
    })

    test('sends nothing where onWritten answers behind the deadline, on a new connection or a kept one', async (rig, send) => {
      for (const kept of [0, 1, 2]) {
        const asked = Promise.withResolvers<(mayBeWritten: boolean) => void>()
        const aborting = new AbortController()
        const sending = send(
          someMessage(channel),
          aborting.signal,
          (part) => part === 'envelope' || new Promise<boolean>((resolve) => asked.resolve(resolve)),
        )
        const answer = await asked.promise
        aborting.abort()
        const late = await sending
        is(late, 'failed')
        assert.equal('maybeDelivered' in late, false, JSON.stringify(late))
        answer(true)
        is(await send(), 'delivered')
        assert.equal(rig.arrived().length, kept + 1)
      }
    })
  }

  test('delivers after the server has closed its idle connections', async (rig, send) => {
    is(await send(), 'delivered')
    await hangUp(rig)
    is(await send(), 'delivered')
    assert.equal(rig.arrived().length, 2)
  })
}

function outcomes(test: Test, capabilities: ProviderCapabilities): void {
  const { channel } = capabilities
  const cases: readonly (readonly [OtherSide, SendResult['outcome'], string])[] = [
    ['rate_limit', 'rate_limited', 'a rate limit'],
    ['refuse', 'rejected', 'a refusal for good'],
    ['refuse_address', 'rejected', 'an address that nobody has'],
    ['break', 'failed', 'a server that breaks'],
    [
      'reset',
      capabilities.tellsWhenCut === false ? 'unknown' : 'failed',
      'a connection that is cut too early',
    ],
    [
      'reset_after_accept',
      capabilities.tellsUnknown ? 'unknown' : 'failed',
      'a connection that is cut too late',
    ],
  ]
  for (const [side, outcome, what] of cases) {
    test(`reports ${what} as ${outcome}, and delivers the next message`, async (rig, send) => {
      rig.behave(side)
      const result = await send()
      is(result, outcome)
      if ('detail' in result) assert.ok(result.detail === undefined || result.detail.length <= 300)
      const before = rig.arrived().length
      assert.equal(before, side === 'reset_after_accept' ? 1 : 0)
      rig.behave('accept')
      const next = someMessage(channel)
      is(await send(next), 'delivered')
      assert.deepEqual(rig.arrived().slice(before), [next.id])
    })
  }

  test('distinguishes an invalid address from other refusals', async (rig, send) => {
    rig.behave('refuse_address')
    const nobody = await send()
    const isAddressed = capabilities.tellsAddress !== false
    assert.equal(nobody.outcome === 'rejected' && nobody.invalidAddress, isAddressed)
    rig.behave('refuse')
    const refused = await send()
    assert.equal(refused.outcome === 'rejected' && refused.invalidAddress, false)
  })

  test('passes on the server’s Retry-After', async (rig, send) => {
    rig.behave('rate_limit')
    const result = await send()
    assert.ok(result.outcome === 'rate_limited')
    const { retryAfter } = result
    if (!capabilities.tellsRetryAfter || retryAfter === undefined || /^\d+$/.test(retryAfter)) {
      assert.equal(retryAfter, capabilities.tellsRetryAfter ? '7' : undefined)
    } else {
      // Some services name the instant in whole seconds, so the result is precise to a second only.
      const waitMs = Date.parse(retryAfter) - Date.now()
      assert.ok(waitMs > 4_000 && waitMs < 9_500, retryAfter)
    }
  })

  if (!capabilities.checksAddress) return
  test('refuses a message without an address, without a call', async (rig, send) => {
    const result = await send(someMessage(channel, { to: { id: 'user-1' } }))
    assert.equal(result.outcome === 'rejected' && result.invalidAddress, true, JSON.stringify(result))
    assert.deepEqual(rig.arrived(), [])
  })
}

function deadlines(test: Test, { channel, deadlineMs, remote }: ProviderCapabilities): void {
  const isNoAnswer = (result: SendResult): void =>
    assert.ok(result.outcome === 'failed' || result.outcome === 'unknown', JSON.stringify(result))

  test('ends when its signal is aborted, although the server does not answer', async (rig, send) => {
    rig.behave('hang')
    const deadline = new AbortController()
    const waiting = send(someMessage(channel), deadline.signal)
    setTimeout(() => deadline.abort(), 50)
    isNoAnswer(await waiting)
    rig.behave('accept')
    is(await send(), 'delivered')
  })

  test('makes no call when its signal is already aborted', async (rig, send) => {
    is(await send(someMessage(channel), AbortSignal.abort()), 'failed')
    assert.deepEqual(rig.arrived(), [])
  })

  if (!remote) return
  test('has a deadline of its own', async (rig, send) => {
    rig.behave('hang')
    const began = performance.now()
    isNoAnswer(await send())
    const tookMs = performance.now() - began
    assert.ok(tookMs >= deadlineMs * 0.9 && tookMs < deadlineMs + 2_000, `${tookMs} ms`)
  })
}

function beginningAndEnd(test: Test, { channel, remote }: ProviderCapabilities): void {
  test('can be warmed, and warmed again', async (rig, send) => {
    await rig.provider.warm?.(rig.account)
    await rig.provider.warm?.(rig.account)
    is(await send(), 'delivered')
  })

  test('settles calls under way when it is closed, and accepts no more', async (rig, send) => {
    rig.behave('hang')
    const waiting = [send(), send(), send()]
    await new Promise((resolve) => setTimeout(resolve, 30))
    await rig.provider.close()
    for (const result of await Promise.all(waiting)) assert.notEqual(result.outcome, 'delivered')
    is(await send(), 'failed')
  })

  if (!remote) return
  test('fails without throwing when the server is unreachable', async (rig, send) => {
    await rig.closeServer()
    await rig.provider.warm?.(rig.account)
    is(await send(), 'failed')
    const results = await Promise.all(Array.from({ length: 20 }, () => send(someMessage(channel))))
    for (const result of results) is(result, 'failed')
  })
}
