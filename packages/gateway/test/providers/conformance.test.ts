/**
 * Mail, webhooks and the sandbox under the conformance suite: mail and webhooks over real sockets, the sandbox in its
 * own process.
 */
import { createSystemClock } from '../../src/adapters/clock.ts'
import { exerciseProvider, type OtherSide } from '../../src/conformance/provider.ts'
import { createSandbox } from '../../src/providers/sandbox/adapter.ts'
import { createSmtpProvider } from '../../src/providers/smtp/adapter.ts'
import { createWebhookProvider } from '../../src/providers/webhook/adapter.ts'
import type { Fate } from '../../src/sandbox/behaviour.ts'
import { createHttpSink, type HttpRule } from '../sinks/http.ts'
import { createSmtpSink, type SmtpRule } from '../sinks/smtp.ts'

const deadlineMs = 2_000

const smtpRules: Readonly<Record<OtherSide, readonly SmtpRule[]>> = {
  accept: [],
  rate_limit: [{ at: 'rcpt', do: '450 4.7.0 sending rate limit exceeded, retry after 7 seconds' }],
  refuse: [{ at: 'body', do: '554 5.7.1 message refused' }],
  refuse_address: [{ at: 'rcpt', do: '550 5.1.1 no such user' }],
  break: [{ at: 'rcpt', do: '451 4.3.0 local error' }],
  hang: [{ at: 'rcpt', do: 'hang' }],
  reset: [{ at: 'data', do: 'reset' }],
  reset_after_accept: [{ at: 'body', do: 'take-reset' }],
}

for (const pipelining of [true, false]) {
  exerciseProvider(
    `smtp ${pipelining ? 'with' : 'without'} pipelining`,
    async (deadlineMs) => {
      const sink = await createSmtpSink(pipelining ? {} : { extensions: ['8BITMIME'] })
      return {
        provider: createSmtpProvider({ deadlineMs, connectMs: deadlineMs }),
        account: { id: 'a1', url: sink.url, options: {} },
        behave: (side) => {
          sink.rules = [...smtpRules[side]]
        },
        hangUp: () => sink.hangUp(),
        arrived: () => sink.mails.map(({ raw }) => /^X-Notification-Id: (\S+)/m.exec(raw)![1]!),
        closeServer: () => sink.close(),
      }
    },
    {
      channel: 'email',
      deadlineMs,
      tellsUnknown: true,
      tellsRetryAfter: true,
      tellsWritten: true,
      checksAddress: true,
      remote: true,
    },
  )
}

const httpRules: Readonly<Record<OtherSide, readonly HttpRule[]>> = {
  accept: [],
  rate_limit: [{ status: 429, headers: { 'Retry-After': '7' } }],
  refuse: [{ status: 422 }],
  refuse_address: [{ status: 410 }],
  break: [{ status: 503 }],
  hang: [{ do: 'hang' }],
  reset: [{ do: 'reset-early' }],
  reset_after_accept: [{ do: 'reset' }],
}

exerciseProvider(
  'webhook',
  async (deadlineMs) => {
    const sink = await createHttpSink()
    let taking = new Set<OtherSide>(['accept', 'reset_after_accept'])
    const taken: string[] = []
    let seen = 0
    let side: OtherSide = 'accept'
    /** A request counts as taken when it arrived while the server was taking. */
    const collect = (): void => {
      for (; seen < sink.requests.length; seen += 1) {
        if (taking.has(side)) taken.push(String(sink.requests[seen]!.headers['webhook-id']))
      }
    }
    return {
      provider: createWebhookProvider({ deadlineMs }),
      account: { id: 'a1', url: sink.url, options: {} },
      behave: (next) => {
        collect()
        side = next
        sink.rules = [...httpRules[side]]
      },
      hangUp: () => sink.hangUp(),
      arrived: () => {
        collect()
        return [...taken]
      },
      closeServer: async () => {
        taking = new Set()
        await sink.close()
      },
    }
  },
  {
    channel: 'webhook',
    deadlineMs,
    tellsUnknown: false,
    tellsRetryAfter: true,
    tellsWritten: true,
    checksAddress: false,
    remote: true,
  },
)

const fates: Readonly<Record<OtherSide, Fate>> = {
  accept: 'deliver',
  rate_limit: 'rate_limit',
  refuse: 'reject',
  refuse_address: 'reject_address',
  break: 'fail',
  hang: 'hang',
  reset: 'reset',
  reset_after_accept: 'reset_after_accept',
}

for (const idempotent of [false, true]) {
  exerciseProvider(
    `sandbox ${idempotent ? 'that knows repetitions' : 'without memory'}`,
    async () => {
      let side: OtherSide = 'accept'
      const sandbox = createSandbox({
        clock: createSystemClock(),
        idempotent,
        behaviour: { retryAfter: '7' },
        script: () => fates[side],
      })
      return {
        provider: sandbox,
        account: { id: 'a1', options: {} },
        behave: (next) => {
          side = next
        },
        arrived: () => sandbox.received().map(({ message }) => message.id),
        closeServer: async () => {},
      }
    },
    {
      channel: 'sms',
      deadlineMs,
      tellsUnknown: true,
      tellsRetryAfter: true,
      tellsWritten: false,
      checksAddress: false,
      remote: false,
    },
  )
}
