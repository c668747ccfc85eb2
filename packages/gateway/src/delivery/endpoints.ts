/**
 * Tracks the recipients' own endpoints that one channel calls: webhooks, and the push services behind browsers. An
 * endpoint that fails or is overloaded is paused by itself, and the account that called it is not blamed. Names are
 * of two kinds: a hook (an address without its query), which answers, and its origin (a host), which is reachable or
 * not. Each can be blocked by a 429 and has a small circuit breaker; calls in flight are bounded per origin. A
 * notification that must wait for a call to end waits in memory, the others on record.
 *
 * Everything is bounded and lost with the process: `namesMax` names (LRU) and `parkedMax` notifications. One call is
 * enough to learn an endpoint's state again.
 */
import type { Notification } from '../model.ts'
import type { SendResult } from '../ports.ts'
import { endpointOf } from './fault.ts'
import { defaultBlockMs, parseRetryAfter } from './retry-policy.ts'

export interface EndpointsOptions {
  /** Maximum of known names. @defaultValue 10_000 */
  readonly namesMax?: number
  /** Maximum of notifications that wait in memory. @defaultValue 1_000 */
  readonly parkedMax?: number
}

/** Consecutive failures that open the breaker of an endpoint. */
const endpointFailuresMax = 5
/** Duration of the first cool-down, and the maximum, ms; each failed probe doubles it. */
export const endpointCoolDownMs = 10_000
const endpointCoolDownMaxMs = 600_000
/** Concurrent calls to an origin that has not delivered yet; each delivery allows one more. */
export const newOriginCalls = 4
/** Notifications that wait on record for one endpoint return spread over this time at most, ms. */
const spreadMaxMs = 600_000
/** Earliest next try of a notification for which memory has no room, ms. */
const lookAgainMs = 2_000
/** Assumed duration of a call before any was measured, ms. */
const usualCallMs = 50

/** State of one name: a hook or an origin. */
interface Endpoint {
  readonly name: string
  blockedUntil: number
  failures: number
  openUntil: number
  coolDownMs: number
  /** True while a probe is in flight. */
  probing: boolean
  /** Calls in flight, and their maximum. Counted for origins alone. */
  inFlight: number
  callsMax: number
  /** True once it has delivered since it was last unreachable. Origins alone. */
  delivers: boolean
  /** Duration of its calls: a moving average, ms. */
  callMs: number
  /** Offset of the last notification scheduled to wait on record, ms. */
  spreadMs: number
  readonly parked: Notification[]
}

/** A place among the calls in flight to an endpoint. Exactly one of `end` and `undo` must be called, once. */
export interface EndpointPlace {
  readonly goes: true
  /** Ends the call with its result and duration. */
  end(now: number, result: SendResult, tookMs: number): void
  /** Frees the place without a call. */
  undo(now: number): void
}

export interface EndpointWait {
  readonly goes: false
  readonly origin: string
  /** The instant from which it may be called; `undefined` when only the end of a call can say: `park` it. */
  readonly at: number | undefined
}

export class Endpoints {
  readonly #namesMax: number
  readonly #parkedMax: number
  /** Known names in LRU order: the least recently used is first. */
  readonly #known = new Map<string, Endpoint>()
  /** Origins for which a notification is parked. */
  readonly #waitedFor = new Set<Endpoint>()
  #onRoom: (notifications: readonly Notification[]) => void = () => {}
  #parked = 0
  /** Calls in flight to origins that have not delivered. */
  #doubtful = 0
  /** Half of the largest account's concurrency: the bound for one origin, and for all that do not deliver. */
  #half = 1
  /** Three quarters: a new origin may make a first call while others hang; the rest is for origins that deliver. */
  #most = 1

  constructor(options: EndpointsOptions = {}) {
    this.#namesMax = options.namesMax ?? 10_000
    this.#parkedMax = options.parkedMax ?? 1_000
  }

  /** Calls the listener with notifications for which there may be room now, to be tried again. Supports one listener. */
  onRoom(listener: (notifications: readonly Notification[]) => void): void {
    this.#onRoom = listener
  }

  /** Counts the known names. */
  get size(): number {
    return this.#known.size
  }

  /**
   * Asks for a place for one call.
   * @param name the origin, or the hook below it
   * @param concurrency the account's maximum of concurrent calls
   */
  enter(name: string, concurrency: number, now: number): EndpointPlace | EndpointWait {
    this.#half = Math.max(this.#half, Math.ceil(concurrency / 2))
    this.#most = Math.max(this.#most, Math.ceil((concurrency * 3) / 4))
    const origin = this.#get(new URL(name).origin)
    const hook = name === origin.name ? undefined : this.#known.get(name)
    const waits = (at: number | undefined): EndpointWait => ({ goes: false, origin: origin.name, at })
    if (outUntil(origin) > now) return waits(spread(origin, outUntil(origin)))
    if (hook !== undefined && outUntil(hook) > now) return waits(spread(hook, outUntil(hook)))
    // The end of a hook's probe wakes no parked notification, so this one waits for an instant.
    if (hook?.probing === true) return waits(spread(hook, now + lookAgainMs))
    if (this.#room(origin) > 0) return this.#begin(name, origin, hook)
    return waits(this.#parked < this.#parkedMax ? undefined : spread(origin, now + lookAgainMs))
  }

  #begin(name: string, origin: Endpoint, hook: Endpoint | undefined): EndpointPlace {
    const probed = [origin, ...(hook === undefined ? [] : [hook])].filter(isOpen)
    for (const each of probed) each.probing = true
    const doubtful = !origin.delivers
    origin.inFlight += 1
    if (doubtful) this.#doubtful += 1
    const leave = (now: number, judge?: () => void): void => {
      origin.inFlight -= 1
      if (doubtful) this.#doubtful -= 1
      for (const each of probed) each.probing = false
      judge?.()
      if (doubtful) this.look(now)
      else this.#wakeFor(origin, now)
    }
    return {
      goes: true,
      end: (now, result, tookMs) => leave(now, () => this.#judge(name, origin, result, tookMs, now)),
      undo: (now) => leave(now),
    }
  }

  #judge(name: string, origin: Endpoint, result: SendResult, tookMs: number, now: number): void {
    if (result.outcome === 'delivered') {
      origin.delivers = true
      origin.callsMax = Math.min(this.#half, origin.callsMax + 1)
      origin.callMs += (tookMs - origin.callMs) / 8
    }
    if (result.outcome === 'delivered' || result.outcome === 'rejected') {
      works(origin)
      const hook = this.#known.get(name)
      if (hook !== undefined && hook !== origin) {
        works(hook)
        if (outUntil(hook) <= now) this.#known.delete(name)
      }
    }
    const named = endpointOf(result)
    if (named === undefined) return
    const blamed = this.#get(named)
    if (result.outcome === 'rate_limited') {
      works(origin)
      block(blamed, now + parseRetryAfter(result.retryAfter, now, defaultBlockMs).ms)
      return
    }
    const { retryAfter, maybeDelivered } = { retryAfter: undefined, maybeDelivered: true, ...result }
    if (blamed === origin) origin.delivers = false
    // The hook has answered, so its host is reachable.
    else if (!maybeDelivered) works(origin)
    if (blamed === origin || maybeDelivered) origin.callsMax = Math.max(1, origin.callsMax >> 1)
    fails(blamed, now)
    if (retryAfter !== undefined) block(blamed, now + parseRetryAfter(retryAfter, now, 0).ms)
  }

  /** Keeps the notification in memory until a call ends. Call `look` afterwards: one may have ended meanwhile. */
  park(wait: EndpointWait, notification: Notification): void {
    const origin = this.#get(wait.origin)
    origin.parked.push(notification)
    this.#parked += 1
    this.#waitedFor.add(origin)
  }

  /** Wakes parked notifications that have room now. */
  look(now: number): void {
    for (const origin of this.#waitedFor) this.#wakeFor(origin, now)
  }

  #wakeFor(origin: Endpoint, now: number): void {
    if (origin.parked.length === 0) return
    // While the origin is out they are woken, to be scheduled on record.
    const count = outUntil(origin) > now ? origin.parked.length : this.#room(origin)
    if (count <= 0) return
    const woken = origin.parked.splice(0, count)
    if (origin.parked.length === 0) this.#waitedFor.delete(origin)
    this.#parked -= woken.length
    this.#onRoom(woken)
  }

  /** Counts the calls that may begin now. An open breaker that is due admits its probe alone. */
  #room(origin: Endpoint): number {
    if (origin.probing) return 0
    const calls = Math.min(isOpen(origin) ? 1 : origin.callsMax, this.#half) - origin.inFlight
    if (origin.delivers) return calls
    const isNew = origin.inFlight === 0 && origin.failures === 0 && origin.callsMax === newOriginCalls
    return isNew && this.#doubtful >= this.#half
      ? Math.min(calls, 1, this.#most - this.#doubtful)
      : Math.min(calls, this.#half - this.#doubtful)
  }

  #get(name: string): Endpoint {
    const known = this.#known.get(name)
    if (known !== undefined) {
      this.#known.delete(name)
      this.#known.set(name, known)
      return known
    }
    if (this.#known.size >= this.#namesMax) this.#forgetOne()
    const made: Endpoint = {
      name,
      blockedUntil: 0,
      failures: 0,
      openUntil: 0,
      coolDownMs: endpointCoolDownMs,
      probing: false,
      inFlight: 0,
      callsMax: newOriginCalls,
      callMs: usualCallMs,
      spreadMs: 0,
      delivers: false,
      parked: [],
    }
    this.#known.set(name, made)
    return made
  }

  /** Drops the least recently used idle name. Names in use are bounded by calls in flight and parked notifications. */
  #forgetOne(): void {
    for (const [name, { inFlight, probing, parked }] of this.#known) {
      if (inFlight > 0 || probing || parked.length > 0) continue
      this.#known.delete(name)
      return
    }
  }
}

/** Returns the instant until which the endpoint is paused. */
function outUntil({ blockedUntil, openUntil }: Endpoint): number {
  return Math.max(blockedUntil, openUntil)
}

/** Tests if its breaker is open: the next call that it gets is a probe. */
function isOpen({ failures }: Endpoint): boolean {
  return failures >= endpointFailuresMax
}

function block(endpoint: Endpoint, until: number): void {
  endpoint.blockedUntil = Math.max(endpoint.blockedUntil, until)
  endpoint.spreadMs = 0
}

function works(endpoint: Endpoint): void {
  endpoint.failures = 0
  endpoint.openUntil = 0
  endpoint.coolDownMs = endpointCoolDownMs
}

function fails(endpoint: Endpoint, now: number): void {
  endpoint.failures += 1
  if (!isOpen(endpoint) || endpoint.openUntil > now) return
  endpoint.openUntil = now + endpoint.coolDownMs
  endpoint.coolDownMs = Math.min(endpointCoolDownMaxMs, endpoint.coolDownMs * 2)
  endpoint.spreadMs = 0
}

/** Spaces notifications as fast as the endpoint takes them, so that they do not return all at once. */
function spread(endpoint: Endpoint, from: number): number {
  const at = from + Math.floor(endpoint.spreadMs)
  endpoint.spreadMs = (endpoint.spreadMs + endpoint.callMs / endpoint.callsMax) % spreadMaxMs
  return at
}
