/**
 * The provider of a run. Its service stands outside all processes: what was written to its socket it has got, whatever
 * becomes of the caller. The adapter belongs to a process: it opens a connection, writes, and waits for the answer.
 */
import { channels } from '../../src/model.ts'
import type { Message, OnWritten, Provider, SendResult } from '../../src/ports.ts'
import type { Faults, PortTerms } from './faults.ts'
import type { SimProcess } from './process.ts'
import type { Settings } from './settings.ts'
import type { World } from './world.ts'

/** The fate of a call that was written. */
type Fate = 'deliver' | 'limit' | 'fail' | 'hang' | 'lose'

/** One call as the service saw it. */
export interface Call {
  readonly serial: number
  readonly process: number
  readonly message: Message
  readonly account: string
  /** The instant at which the gateway gave it to the adapter. */
  readonly handedAt: number
  /** The instant at which it was written to the socket. */
  readonly at: number
  readonly fate: Fate
  /** The recipient has got something by it. */
  readonly arrived: boolean
  /** Retry-After of a 429, ms. */
  readonly retryAfterMs?: number
  /** The instant at which the process had an answer, or gave up waiting for one. */
  answeredAt?: number
  outcome?: SendResult['outcome']
}

export interface SimService {
  readonly calls: readonly Call[]
  readonly observers: Set<(call: Call, what: 'written' | 'answered') => void>
  /** The adapter of a process. */
  adapter(process: SimProcess): Provider
}

/** Delays and failures of a call are the service's business; a kill may strike at it as at every port. */
const socketTerms: PortTerms = {
  usualMs: 0,
  requestMsMax: 0,
  answerMsMax: 0,
  mayBeRefused: false,
  mayBeLost: false,
  isSend: true,
}
const usualMsMax = 60

export function createSimService(world: World, { provider }: Settings, faults: Faults): SimService {
  const calls: Call[] = []
  const observers = new Set<(call: Call, what: 'written' | 'answered') => void>()
  const taken = new Set<string>()
  let handed = 0

  function fateOf(key: string, account: string): Fate {
    const ms = world.elapsed()
    const outage = provider.outages?.find(
      (each) => each.account === account && each.from <= ms && ms < each.to,
    )
    if (outage !== undefined) return outage.fate
    if (!faults.isDisturbed()) return 'deliver'
    const { failShare, limitShare, hangShare, lostShare } = provider
    let draw = world.draw(`${key} fate`)
    for (const [fate, share] of [
      ['fail', failShare],
      ['limit', limitShare],
      ['hang', hangShare],
      ['lose', lostShare],
    ] as const) {
      if (draw < share) return fate
      draw -= share
    }
    return 'deliver'
  }

  function arrives(message: Message, fate: Fate, key: string): boolean {
    if (fate === 'limit' || fate === 'fail') return false
    // A service that hangs may have taken the message or not.
    if (fate === 'hang' && world.draw(`${key} taken`) < 0.5) return false
    if (provider.idempotent && taken.has(message.id)) return false
    taken.add(message.id)
    return true
  }

  function adapter(process: SimProcess): Provider {
    function send(
      message: Message,
      { id: account }: { readonly id: string },
      signal: AbortSignal,
      onWritten: OnWritten = () => true,
    ): Promise<SendResult> {
      if (!process.isAlive) return new Promise(() => {})
      handed += 1
      const key = `${process.number}.send.${message.id}.${message.attempt}.${handed}`
      const handedAt = world.now()
      world.trace({ kind: 'send', id: message.id, account, attempt: message.attempt })
      const ownFate = faults.fateOf(key, socketTerms)
      if (faults.strikesAt('before', ownFate)) {
        process.end('kill', `before ${key}`)
        return new Promise(() => {})
      }
      const { promise, resolve } = Promise.withResolvers<SendResult>()
      let call: Call | undefined

      function answer(result: SendResult): void {
        if (call !== undefined && call.answeredAt === undefined) {
          call.answeredAt = world.now()
          call.outcome = result.outcome
          for (const observer of observers) observer(call, 'answered')
        }
        resolve(result)
      }

      function write(): void {
        if (signal.aborted) return
        const mayBeWritten = onWritten()
        if (typeof mayBeWritten === 'boolean') writeIf(mayBeWritten)
        else void mayBeWritten.then((may) => process.run(() => writeIf(may)))
      }

      function writeIf(mayBeWritten: boolean): void {
        if (!process.isAlive || call !== undefined || signal.aborted) return
        if (!mayBeWritten) {
          answer({ outcome: 'failed', detail: 'it came too late to be sent' })
          return
        }
        const fate = fateOf(key, account)
        const retryAfterMs = fate === 'limit' ? world.between(`${key} retry`, 1, 4) * 1_000 : undefined
        call = {
          serial: calls.length,
          process: process.number,
          message,
          account,
          handedAt,
          at: world.now(),
          fate,
          arrived: arrives(message, fate, key),
          ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
        }
        calls.push(call)
        world.trace({ kind: 'written', id: message.id, to: message.to.id, account, fate })
        for (const observer of observers) observer(call, 'written')
        if (faults.strikesAt('performed', ownFate)) {
          process.end('kill', `after ${key} was written`)
          return
        }
        if (fate === 'hang') return
        const result = resultOf(call)
        const tookMs = world.between(`${key} took`, 1, usualMsMax)
        world.at(world.now() + tookMs, () =>
          process.run(() => {
            if (faults.strikesAt('answered', ownFate)) process.end('kill', `at the answer of ${key}`)
            else answer(result)
          }),
        )
      }

      signal.addEventListener('abort', () =>
        process.run(() =>
          answer(
            call === undefined
              ? { outcome: 'failed', detail: 'no connection in time' }
              : { outcome: 'unknown', detail: 'no answer in time' },
          ),
        ),
      )
      const isLate = faults.isDisturbed() && world.draw(`${key} late`) < provider.lateWriteShare
      if (isLate) {
        const lateMs = Math.floor(world.draw(`${key} late ms`) * (provider.lateWriteMsMax ?? 4_000))
        world.at(world.now() + lateMs, () => process.run(write))
      } else write()
      return promise
    }

    function resultOf({ fate, retryAfterMs = 0 }: Call): SendResult {
      switch (fate) {
        case 'limit':
          return { outcome: 'rate_limited', retryAfter: String(retryAfterMs / 1_000), detail: '429' }
        case 'fail':
          return { outcome: 'failed', detail: '503' }
        case 'lose':
          return { outcome: 'unknown', detail: 'reset after it was written' }
        default:
          return { outcome: 'delivered', providerMessageId: 'p' }
      }
    }

    return {
      name: 'sandbox',
      idempotent: provider.idempotent,
      channels,
      tellsWritten: true,
      send,
      close: () => Promise.resolve(),
    }
  }

  return { calls, observers, adapter }
}
