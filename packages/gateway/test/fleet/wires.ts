/**
 * The way between a process and an engine. A call travels for a while, is performed (or not), and its answer travels back
 * (or an error does in its place). Calls of one pipeline arrive in the order in which they were sent, and so do their
 * answers, as those to the thread of the embedded store. What a killed process has sent may still be performed, in order.
 */
import { SluiceError } from '../../src/errors.ts'
import type { Fate, Faults, PortTerms } from './faults.ts'
import type { SimProcess } from './process.ts'

export interface WireOptions<Port> {
  readonly name: string
  readonly process: SimProcess
  readonly faults: Faults
  readonly port: Port
  readonly terms: PortTerms
  /** Error code of a call that fails. */
  readonly code: 'STORE_UNAVAILABLE' | 'STATE_UNAVAILABLE'
  /** Methods that answer synchronously, or end the port. */
  readonly direct: readonly string[]
  /** Methods of the pipeline; the others overtake each other. @defaultValue none */
  readonly isInOrder?: (method: string) => boolean
  /** Terms of single methods. */
  readonly exceptions?: Readonly<Record<string, Partial<PortTerms>>>
  /** The time for which a lock at the engine holds a call up, ms. */
  readonly lockedMs?: ((method: string) => number) | undefined
  /** Called with each call that is sent, and with its fate. */
  readonly onSent?: (method: string, fate: Fate, args: readonly unknown[]) => void
}

/** A promise that nobody keeps: one that all calls share would keep whatever awaits it, and so each process that has died. */
const never = (): Promise<never> => new Promise(() => {})

/** Puts a port at the end of a wire. */
export function wired<Port extends object>(options: WireOptions<Port>): Port {
  const { name, process, faults, port, code, isInOrder = () => false } = options
  const { world } = process
  const direct = new Set(options.direct)
  const counts = new Map<string, number>()
  const wrapped = new Map<PropertyKey, unknown>()
  /** Calls of the pipeline that have not arrived, oldest first. */
  const sent = new Set<() => void>()
  let arrivesAt = 0
  let answeredAt = 0

  const failure = (isUncertain = false): SluiceError =>
    new SluiceError(code, 'The connection was lost.', { retryAfterMs: 1_000, isUncertain })

  process.onDeath((how) => {
    if (how !== 'kill') return
    // The engine may have read some of it from its socket.
    let survivors = sent.size === 0 ? 0 : world.between(`${process.number} survivors`, 0, sent.size)
    for (const perform of sent) if (survivors-- > 0) perform()
    sent.clear()
  })

  function call(method: string, perform: () => unknown, args: readonly unknown[]): Promise<unknown> {
    if (!process.isAlive) return never()
    const count = (counts.get(method) ?? 0) + 1
    counts.set(method, count)
    const id = `${process.number}.${name}.${method}.${count}`
    const terms = { ...options.terms, ...options.exceptions?.[method] }
    const lockedMs = options.lockedMs?.(method) ?? 0
    const usual = faults.fateOf(id, terms)
    const fate = lockedMs > 0 ? { ...usual, requestMs: Math.max(usual.requestMs, lockedMs) } : usual
    if (faults.strikesAt('before', fate)) {
      process.end('kill', `before ${id}`)
      return never()
    }
    options.onSent?.(method, fate, args)
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const ordered = isInOrder(method)

    function answer(give: () => void): void {
      let at = world.now() + fate.answerMs
      if (ordered) {
        at = Math.max(at, answeredAt)
        answeredAt = at
      }
      const arrive = (): void =>
        process.run(() => {
          if (faults.strikesAt('answered', fate)) process.end('kill', `at the answer of ${id}`)
          else give()
        })
      world.at(at, arrive)
    }

    function arrive(): void {
      if (fate.failure === 'refused') {
        world.trace({ kind: 'refused', call: id })
        // A connection that is lost on the way there looks like one that is lost on the way back.
        const isUncertain = terms.mayBeLost && world.draw(`${id} uncertain`) < 0.5
        answer(() => reject(failure(isUncertain)))
        return
      }
      let result: Promise<unknown>
      try {
        result = Promise.resolve(perform())
      } catch (error) {
        result = Promise.reject(error)
      }
      if (faults.strikesAt('performed', fate)) {
        result.catch(() => {})
        process.end('kill', `after ${id} was performed`)
        return
      }
      result.then(
        (value) => {
          if (world.isVerbose) world.trace({ kind: 'call', call: id, args: shown(args), value: shown(value) })
          if (fate.failure !== 'lost') return answer(() => resolve(value))
          world.trace({ kind: 'lost', call: id })
          answer(() => reject(failure(true)))
        },
        (error) => answer(() => reject(error)),
      )
    }

    let at = world.now() + fate.requestMs
    if (!ordered) {
      world.at(at, () => {
        if (process.isAlive) arrive()
      })
      return promise
    }
    at = Math.max(at, arrivesAt)
    arrivesAt = at
    sent.add(arrive)
    world.at(at, () => {
      if (sent.delete(arrive)) arrive()
    })
    return promise
  }

  return new Proxy(port, {
    get(target, property) {
      const known = wrapped.get(property)
      if (known !== undefined) return known
      const value = Reflect.get(target, property, target) as unknown
      if (typeof value !== 'function') return value
      const method = String(property)
      const bound = value.bind(target) as (...args: unknown[]) => unknown
      const made = direct.has(method)
        ? bound
        : (...args: unknown[]) => call(method, () => bound(...args), args)
      wrapped.set(property, made)
      return made
    },
  })
}

/** Characters of a value that a verbose trace shows. */
const shownMax = 600
const isLong = new Set(['rules', 'text', 'decision', 'timeline', 'content', 'data'])

function shown(value: unknown): string | undefined {
  const text = JSON.stringify(value, (key, field: unknown) => (isLong.has(key) ? undefined : field))
  return text?.slice(0, shownMax)
}
