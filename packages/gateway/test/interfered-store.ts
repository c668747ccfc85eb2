/**
 * A store that lets one thing happen at a wrong moment: at its n-th call another writer, a refused commit, a failure or the
 * end of the process; at the n-th await of the process another writer beside it, or its end.
 */
import { copyFileSync, existsSync } from 'node:fs'
import { promiseHooks } from 'node:v8'
import { SluiceError } from '../src/errors.ts'
import type { Change, Clock, CommitResult, Conflict, Store } from '../src/ports.ts'
import { second } from './harness.ts'

/**
 * An event at a call; `before` and `after` are before it reaches the store, and before its answer comes back. At an
 * await a writer begins `beside` the flow.
 */
export type Event =
  | { readonly kind: 'writer'; readonly when: 'before' | 'after' | 'beside'; readonly name: string }
  | { readonly kind: 'refusal' }
  | { readonly kind: 'failure' }
  | { readonly kind: 'end'; readonly when: 'before' | 'after' }

export interface Disturbed {
  /** Which call, by the name of what is called, or which await; from 1. */
  readonly at: { readonly call: number; readonly name: string } | { readonly await: number }
  readonly event: Event
}

export interface Interfered {
  readonly store: Store
  readonly calls: readonly string[]
  /** How many awaits went on since it was armed. */
  readonly awaits: number
  readonly dead: boolean
  /** From here on calls and awaits are counted; `onAwait` is told of each that goes on. */
  arm(disturbed: Disturbed | undefined, onAwait?: () => void): void
  /** Nothing more is counted. */
  disarm(): void
  /** The writer that ran beside the flow has ended, at once where it did not; rejects with what it was not to reject with. */
  ended(): Promise<void>
  /** Gives up what the process held that has ended. */
  bury(): Promise<void>
}

/** Calls that answer at once, or are not part of a flow. */
const unmet = new Set(['mayHave', 'claimedUntil', 'close', 'counters', 'check'])
/** The files of a store that hold what is on record. */
const fileEnds = ['', '-wal']
/** Turns for a writer: who waits for the call itself goes on behind it. */
const turnsMax = 8

export function interfered(
  store: Store,
  clock: () => Clock,
  write: (name: string) => Promise<unknown>,
  file: string | undefined,
  copy: string,
): Interfered {
  const calls: string[] = []
  let armed: { readonly disturbed: Disturbed | undefined } | undefined
  let awaits = 0
  let stopCounting = (): void => {}
  let beside: Promise<void> = Promise.resolve()
  let isWriting = false
  let dead = false
  const never = new Promise<never>(() => {})

  function die(): Promise<never> {
    dead = true
    for (const end of fileEnds) if (existsSync(file + end)) copyFileSync(file + end, copy + end)
    return never
  }

  function atAwait({ event }: Disturbed): void {
    if (event.kind === 'end') void die()
    if (event.kind !== 'writer') return
    beside = write(event.name).then(() => {}, expected)
    // It is looked at in the end.
    beside.catch(() => {})
  }

  async function meet(name: string): Promise<void> {
    isWriting = true
    let done = false
    const work = write(name).catch(expected)
    work.finally(() => {
      done = true
    })
    for (let turn = 0; turn < turnsMax && !done; turn += 1)
      await new Promise<void>((resolve) => clock().soon(resolve))
    isWriting = false
  }

  async function call(name: string, invoke: () => Promise<unknown>, args: readonly unknown[]) {
    if (dead) return never
    if (armed === undefined || isWriting) return invoke()
    calls.push(name)
    const at = armed.disturbed?.at
    const event =
      at !== undefined && 'call' in at && at.call === calls.length ? armed.disturbed!.event : undefined
    if (event === undefined) {
      const answer = await invoke()
      return dead ? never : answer
    }
    if (event.kind === 'failure')
      throw new SluiceError('STORE_UNAVAILABLE', 'Full.', { retryAfterMs: second })
    if (event.kind === 'refusal') return refusalOf(args[0] as Change)
    if (event.kind === 'end' && event.when === 'before') return die()
    if (event.kind === 'writer' && event.when === 'before') await meet(event.name)
    const answer = await invoke()
    if (event.kind === 'end') return die()
    if (event.kind === 'writer' && event.when === 'after') await meet(event.name)
    return dead ? never : answer
  }

  return {
    calls,
    get dead() {
      return dead
    },
    bury: () => store.close(),
    get awaits() {
      return awaits
    },
    arm(disturbed, onAwait = () => {}) {
      armed = { disturbed }
      const at = disturbed?.at
      const which = at !== undefined && 'await' in at ? at.await : undefined
      const stop = promiseHooks.onBefore(() => {
        awaits += 1
        onAwait()
        if (awaits === which) atAwait(disturbed!)
      })
      stopCounting = () => void stop()
    },
    disarm() {
      stopCounting()
      armed = undefined
    },
    ended: async () => (dead ? undefined : beside),
    store: new Proxy(store, {
      get(of, name) {
        const value = Reflect.get(of, name) as unknown
        if (typeof value !== 'function') return value
        const bound = value.bind(of) as (...args: unknown[]) => Promise<unknown>
        if (unmet.has(String(name))) return bound
        return (...args: unknown[]) => call(String(name), () => bound(...args), args)
      },
    }),
  }
}

function refusalOf({ moves = [], digests = [], jobs = [], accept = [], answer }: Change): CommitResult {
  const conflicts: Conflict[] = [
    ...jobs.flatMap((write) =>
      write.kind === 'move' ? [{ kind: 'job', key: write.after.id } as const] : [],
    ),
    ...digests.map(({ digest }) => ({ kind: 'digest', key: digest.id }) as const),
    ...moves.map(({ before }) => ({ kind: 'notification', key: before.id }) as const),
    ...(moves.length === 0 && digests.length === 0
      ? accept.map(({ id }) => ({ kind: 'notification', key: id }) as const)
      : []),
    ...(answer === undefined ? [] : [{ kind: 'answer', key: answer.key } as const]),
  ]
  return { applied: false, conflicts: conflicts.slice(0, 1) }
}

/** Throws anything but an error that a client may be told: it is a defect. */
export function expected(error: unknown): void {
  if (!(error instanceof SluiceError)) throw error
}
