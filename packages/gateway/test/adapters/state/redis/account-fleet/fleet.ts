/**
 * A fleet of real processes that call shared accounts, and the witness: a sink that keeps the instant of each call and counts
 * every rolling window literally. It shares no code with the slots. The parent stands for the store, too: it keeps the
 * record of long windows, and says which process judges.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { createServer, type Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseWindow } from '@sluice/limits'
import type { UseRecord } from '../../../../../src/ports.ts'

export interface CalledAccount {
  readonly id: string
  readonly rate: readonly string[]
  readonly concurrency?: number
}

export interface Terms {
  readonly url: string
  readonly prefix: string
  readonly sinkPort: number
  readonly member: string
  readonly accounts: readonly CalledAccount[]
  /** The time between a lease and its call, ms. */
  readonly askMs: number
  /** The time of a call, ms. */
  readonly callMs: number
  /** True where load shedding bounds the pool while accounts are out. @defaultValue false */
  readonly shedding?: boolean
  /** Notifications that arrive at the process each second, of which none waits above 5 s. Absent: one always waits. */
  readonly arrivalsPerSecond?: number
}

export type ToParent =
  | { readonly kind: 'write'; readonly account: string; readonly use: UseRecord | undefined }
  | { readonly kind: 'read' }
  | { readonly kind: 'counts'; readonly calls: number; readonly refused: number; readonly away: number }

export type FromParent =
  | { readonly kind: 'judge' }
  | { readonly kind: 'written' }
  | { readonly kind: 'stop' }
  | { readonly kind: 'limit'; readonly account: string; readonly seconds: number }
  | { readonly kind: 'records'; readonly records: readonly (readonly [string, UseRecord])[] }

/** The store answers so late, ms. */
const storeMs = 3

export class Fleet {
  /** The instants of the calls by account, ms on the monotonic clock of the machine. */
  readonly calls = new Map<string, number[]>()
  /** The instants of calls that were answered 429. */
  readonly refused: number[] = []
  readonly counts = new Map<
    string,
    { readonly calls: number; readonly refused: number; readonly away: number }
  >()
  readonly #accounts: readonly CalledAccount[]
  readonly #terms: Omit<Terms, 'member' | 'sinkPort'>
  readonly #records = new Map<string, UseRecord>()
  readonly #members: { readonly process: ChildProcess; readonly name: string }[] = []
  #server: Server | undefined
  #started = 0

  constructor(terms: Omit<Terms, 'member' | 'sinkPort'>) {
    this.#terms = terms
    this.#accounts = terms.accounts
  }

  async open(): Promise<void> {
    const server = createServer((socket) => {
      let rest = ''
      socket.setEncoding('latin1')
      socket.on('error', () => {})
      socket.on('data', (text) => {
        const lines = (rest + text).split('\n')
        rest = lines.pop()!
        for (const line of lines) {
          const [account, micros, outcome] = line.split(' ')
          const calls = this.calls.get(account!) ?? []
          this.calls.set(account!, calls)
          calls.push(Number(micros) / 1_000)
          if (outcome === 'refused') this.refused.push(Number(micros) / 1_000)
        }
      })
    })
    this.#server = server
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  }

  /** Starts another process; the first one alive judges. */
  start(): void {
    this.#started += 1
    const name = `m${this.#started}`
    const address = this.#server!.address() as { readonly port: number }
    const terms: Terms = { ...this.#terms, member: name, sinkPort: address.port }
    const child = fork(new URL('./member.ts', import.meta.url), [JSON.stringify(terms)], {
      execArgv: ['--conditions=sluice-source'],
    })
    this.#members.push({ process: child, name })
    const answer = (message: FromParent) => child.connected && child.send(message)
    child.on('message', (message: ToParent) => {
      if (message.kind === 'counts') this.counts.set(name, message)
      else
        setTimeout(() => {
          if (message.kind === 'read') return answer({ kind: 'records', records: [...this.#records] })
          if (message.use === undefined) this.#records.delete(message.account)
          else this.#records.set(message.account, message.use)
          return answer({ kind: 'written' })
        }, storeMs)
    })
    this.#appoint()
  }

  /** Waits until each process has made calls, and the first windows are over; 60 s at most. */
  async ready(windowMs = 2_500): Promise<void> {
    const sinceMs = performance.now()
    while (this.#members.some(({ name }) => (this.counts.get(name)?.calls ?? 0) === 0)) {
      if (performance.now() - sinceMs > 60_000) throw new Error('a process makes no calls')
      await sleep(50)
    }
    await sleep(windowMs)
  }

  /** Kills the process that has lived longest: the judge. Another one judges a second later. */
  kill(): void {
    this.#members.shift()!.process.kill('SIGKILL')
    setTimeout(() => this.#appoint(), 1_000)
  }

  tell(message: FromParent): void {
    for (const { process } of this.#members) if (process.connected) process.send(message)
  }

  /** Lets all processes end their calls, and ends them. */
  async close(): Promise<void> {
    this.tell({ kind: 'stop' })
    await sleep(300)
    for (const { process } of this.#members) process.kill('SIGKILL')
    this.#server?.close()
  }

  #appoint(): void {
    const first = this.#members[0]
    if (first?.process.connected === true) first.process.send({ kind: 'judge' } satisfies FromParent)
  }

  /** Windows that hold more calls than their maximum. */
  over(): readonly string[] {
    return this.#accounts.flatMap(({ id, rate }) => {
      const calls = (this.calls.get(id) ?? []).toSorted((a, b) => a - b)
      return rate.map(parseWindow).flatMap(({ max, windowMs, text }) => {
        let worst = 0
        let first = 0
        for (let last = 0; last < calls.length; last += 1) {
          while (calls[last]! - calls[first]! >= windowMs) first += 1
          worst = Math.max(worst, last - first + 1)
        }
        return worst > max ? [`${id}: ${worst} calls within ${text}`] : []
      })
    })
  }

  /** The instant of the first call of an account since another one. */
  firstSince(id: string, from: number): number | undefined {
    const later = (this.calls.get(id) ?? []).filter((at) => at >= from)
    return later.length === 0 ? undefined : Math.min(...later)
  }

  /** The calls of an account between two instants. */
  between(id: string, from: number, to: number): number {
    return (this.calls.get(id) ?? []).filter((at) => at >= from && at < to).length
  }
}

/** Milliseconds on the monotonic clock of the machine. */
export const machineMs = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000
