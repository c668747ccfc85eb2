/**
 * A provider that carries nothing and can imitate any provider: be slow, refuse, break, hang, throttle silently. It
 * runs in this process on the gateway's own clock, so it works in virtual time, and its chances come from a seed. It
 * is the default of every channel, and the oracle of the simulator and the tests.
 */
import { channels } from '../../model.ts'
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
import type { Fate } from '../../sandbox/behaviour.ts'
import {
  createFakeProvider,
  type FakeProvider,
  type FakeProviderOptions,
} from '../../sandbox/fake-provider.ts'

export interface SandboxOptions extends FakeProviderOptions<Message> {
  readonly clock: Clock
}

export interface Sandbox extends Provider, Omit<FakeProvider<Message>, 'receive'> {}

const deliveredAtOnce: Promise<SendResult> = Promise.resolve({ outcome: 'delivered' })
const neverBegun: Promise<SendResult> = Promise.resolve({
  outcome: 'failed',
  detail: 'closed, or no time left',
})

export function createSandbox(options: SandboxOptions): Sandbox {
  const { clock, idempotent = false } = options
  const { receive, ...side } = createFakeProvider(options)
  const pending = new Set<() => void>()
  let closed = false

  function answer(
    result: SendResult | undefined,
    latencyMs: number,
    signal: AbortSignal,
  ): Promise<SendResult> {
    if (latencyMs <= 0 && result !== undefined) return Promise.resolve(result)
    return new Promise((resolve) => {
      const finish = (outcome: SendResult): void => {
        disarm?.()
        signal.removeEventListener('abort', onAbort)
        pending.delete(onAbort)
        resolve(outcome)
      }
      const onAbort = (): void => finish({ outcome: 'failed', detail: 'no answer in time' })
      const disarm =
        result === undefined ? undefined : clock.at(clock.now() + latencyMs, () => finish(result))
      pending.add(onAbort)
      if (signal.aborted) onAbort()
      else signal.addEventListener('abort', onAbort)
    })
  }

  return {
    ...side,
    name: 'sandbox',
    idempotent,
    channels,
    send(message: Message, account: Account, signal: AbortSignal): Promise<SendResult> {
      if (closed || signal.aborted) return neverBegun
      const { fate, retryAfter, delayMs } = receive(message, account.id)
      if (fate === 'deliver' && delayMs === 0) return deliveredAtOnce
      return answer(answerTo(fate, retryAfter), delayMs, signal)
    },
    async close() {
      closed = true
      for (const giveUp of [...pending]) giveUp()
    },
  }
}

/** The result that the caller gets; `undefined` where the call is never answered. */
function answerTo(fate: Fate, retryAfter: string): SendResult | undefined {
  switch (fate) {
    case 'deliver':
      return { outcome: 'delivered' }
    case 'rate_limit':
      return {
        outcome: 'rate_limited',
        ...(retryAfter === '' ? {} : { retryAfter }),
        detail: '429 Too Many Requests',
      }
    case 'fail':
      return { outcome: 'failed', detail: '503 Service Unavailable' }
    case 'reject':
      return { outcome: 'rejected', invalidAddress: false, detail: '422 refused' }
    case 'reject_address':
      return { outcome: 'rejected', invalidAddress: true, detail: '410 no such recipient' }
    case 'suspend':
      return { outcome: 'failed', detail: '403 the account is suspended' }
    case 'reset':
      return { outcome: 'failed', detail: 'connection reset before the request was read' }
    case 'reset_after_accept':
      return { outcome: 'unknown', detail: 'connection reset before the answer' }
    case 'hang':
    case 'hang_after_accept':
      return undefined
  }
}
