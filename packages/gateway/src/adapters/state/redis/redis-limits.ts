/**
 * The limits of recipients over all processes, in Redis or a Redis Cluster. Every decision is one call of the script of
 * `@sluice/limits`, which is atomic for a subject; what waits there, and who holds newcomers up, stands beside its value.
 * What Redis has lost is unknown, and filled from the record before anything is decided (limit-calls.ts).
 */
import type { Decision, Limits } from '@sluice/limits'
import { HeldUpError } from '../../../errors.ts'
import type { PlanLate } from '../../../ports/limiter.ts'
import type { RecoveredSubject } from '../../../ports/recovered-subject.ts'
import type {
  Clock,
  FingerprintHold,
  Firing,
  LimitRequest,
  LimitState,
  Reservation,
  SlotRelease,
  Subject,
} from '../../../ports.ts'
import { releaseOf, termsOf } from '../limit-terms.ts'
import { behindFloor, mergeBehindFloor } from '../newcomer-floors.ts'
import { reservationInTurn } from '../reserve-in-turn.ts'
import { latestReserved } from '../subject-entries.ts'
import { isOverBy } from './is-over-by.ts'
import { createLimitAdvance } from './limit-advance.ts'
import { createLimitCalls, heldUpMs, type LimitCall, unlimited } from './limit-calls.ts'
import { createLimitHolds } from './limit-holds.ts'
import { createLimitPlans, readEntries } from './limit-plans.ts'
import { createOutdatedSubjects } from './outdated-subjects.ts'
import type { RecentlyFired } from './recently-fired.ts'
import type { Reply } from './redis-answers.ts'
import type { RedisState } from './redis-state.ts'

export interface RedisLimitsOptions {
  readonly redis: RedisState
  readonly clock: Pick<Clock, 'now' | 'monotonic' | 'at'>
  /** The name of this process, as no other process has it. */
  readonly member: string
  /** Every window is kept this much longer, for what happens on the way to the provider, ms. */
  readonly marginMs: number
  /**
   * Reads a subject from the record. What another process has the right to send counts as sent now, under its own id: the
   * right is on record before the limits are asked, so no send is missed. `recentlyFired` adds the sends of this process.
   */
  readonly recover: (subject: Subject) => RecoveredSubject | Promise<RecoveredSubject>
  /**
   * Names the rules in force, the same in every process that has them. Where it differs from the name under which a subject
   * was filled, the subject is filled again: its instants may count in other streams.
   */
  readonly rulesName: () => string
  /**
   * A subject in which some may wait longer than they need: it was filled with outdated facts, or a claim was dropped there
   * (limit-advance.ts). It is paused: the callee resumes it, and resolves when those who wait have moved up.
   */
  readonly onOutdated?: ((subject: Subject) => unknown) | undefined
  /** Plans a subject again whose limits refused notifications that were late. @defaultValue nothing is planned */
  readonly planLate?: PlanLate | undefined
  /** Completes the record with what this process has fired, and not yet sent. @defaultValue the record is complete */
  readonly recentlyFired?: RecentlyFired | undefined
  readonly onError?: ((what: string, error: unknown) => void) | undefined
}

const flag = (is: boolean): string => (is ? '1' : '0')
const streamsOf = (rules: LimitRequest['rules']): string => JSON.stringify(rules.map(({ stream }) => stream))

export function createRedisLimits(options: RedisLimitsOptions): LimitState {
  const { redis, clock, member, marginMs, recover, rulesName, onOutdated, planLate } = options
  const { recentlyFired, onError = () => {} } = options
  const calls = createLimitCalls({
    redis,
    clock,
    member,
    marginMs,
    recover:
      recentlyFired === undefined
        ? recover
        : async (subject) => recentlyFired.within(subject, await recover(subject)),
    rulesName,
    onOutdated(subject, token) {
      holds.note(subject, token)
      void moveUp(subject)
    },
    outdated: {
      hasMovedUp: (subject) => outdated.hasMovedUp(subject),
      putOff: (subject) => outdated.putOff(subject),
    },
    onError,
  })
  const holds = createLimitHolds({ calls, member, onError })
  const report = onOutdated ?? ((subject: Subject): unknown => holds.resume([subject]))
  const outdated = createOutdatedSubjects(clock, (subject) => {
    void holds.pause([subject]).then(() => moveUp(subject))
  })
  async function moveUp(subject: Subject): Promise<void> {
    outdated.movesUp(subject)
    await report(subject)
    outdated.ends(subject)
  }
  const advance = createLimitAdvance({ calls, holds, onDropped: (subject) => void report(subject) })
  const plan = planLate === undefined ? undefined : createLimitPlans({ calls, holds, planLate })

  /** Asks about one request; `token` names a pause that the operation may begin. */
  async function ask(
    operation: string,
    { subject }: Pick<LimitRequest, 'subject'>,
    own: readonly string[],
    question: (limits: Limits) => Promise<Decision>,
    more: Pick<LimitCall, 'token' | 'newcomerUntil'> = {},
  ) {
    return calls.ask({ operation, subject, own, hasRules: true, ...more }, question)
  }

  async function reserve(request: LimitRequest, operation: 'reserve' | 'preview'): Promise<Reservation> {
    const { subject } = request
    const id = operation === 'preview' ? `preview:${request.id}` : request.id
    const inTurn = request.inTurn === true ? await reserveInTurn(request, id, operation) : undefined
    if (inTurn !== undefined) return inTurn
    const isNew = request.waited !== true
    const heldUpUntil = clock.monotonic() + heldUpMs
    // Without a pause nothing is awaited: requests of one turn keep their order.
    for (let over = isNew ? holds.over(subject) : undefined; over !== undefined; over = holds.over(subject))
      if (!(await isOverBy(clock, heldUpUntil, over))) throw new HeldUpError(subject.key)
    const reservation = async ({ rules: asked, ...terms }: LimitRequest, newcomer: boolean) => {
      const given = { ...termsOf({ ...terms, rules: asked }), id }
      const own = [flag(newcomer), flag(asked.length > 0)]
      return ask(operation, request, own, (limits) => limits.reserve(subject.key, asked, given), {
        newcomerUntil: newcomer ? heldUpUntil : undefined,
      })
    }
    const first = await reservation(request, isNew)
    if (first.answer === undefined)
      throw new Error(`a reservation in ${subject.key} is neither held nor refused`)
    const floor = first.added[0]
    if (typeof floor !== 'number') return first.answer
    const behind = behindFloor(request, floor, clock.now())
    const second = await reservation(behind, false)
    return mergeBehindFloor(request, first.answer, second.answer!)
  }

  /** Undefined where the id counts already: `reserve` answers what it holds. */
  async function reserveInTurn(
    request: LimitRequest,
    id: string,
    operation: 'reserve' | 'preview',
  ): Promise<Reservation | undefined> {
    const { subject, rules, notBefore = 0, horizonMs = Number.POSITIVE_INFINITY } = request
    const own = [
      flag(operation === 'preview'),
      String(notBefore),
      String(Math.min(horizonMs, 9e15)),
      streamsOf(rules),
      ...unlimited,
    ]
    const { answer } = await ask('turn', request, own, (limits) =>
      limits.fire(subject.key, id, rules, releaseOf(request)),
    )
    return answer === undefined ? undefined : reservationInTurn(request, answer, clock.now())
  }

  async function fire(request: LimitRequest, mayPlan = plan !== undefined): Promise<Firing> {
    const { subject, id, rules, notBefore = 0, print } = request
    const token = calls.newToken()
    const asked = await ask(
      'fire',
      request,
      [
        String(notBefore),
        flag(mayPlan),
        ...(print === undefined ? [] : [print.fingerprint, String(print.acceptedAt), String(print.windowMs)]),
      ],
      (limits) => limits.fire(subject.key, id, rules, releaseOf(request)),
      { token },
    )
    // Limits that refuse it take out what they counted of an earlier try.
    if (asked.answer?.fired !== true) recentlyFired?.forget(subject, id)
    if (asked.answer === undefined)
      return asked.heldAt === undefined
        ? { fired: false, at: clock.now(), isDuplicate: true }
        : { fired: false, at: asked.heldAt }
    const { fired, at } = asked.answer
    if (fired) recentlyFired?.note(request, at)
    if (plan !== undefined && asked.added[0] === 2) {
      await plan({ subject, refused: new Set([id]) }, token)
      return fire(request, false)
    }
    if (asked.added[0] !== 1) return { fired, at }
    holds.note(subject, token)
    return { fired, at, freed: subject }
  }

  const force =
    (operation: 'force' | 'recount'): LimitState['force'] =>
    async (requests) => {
      await Promise.all(
        requests.map(async (request) => {
          const { subject, id, rules, at = 0 } = request
          const own = at === 0 || rules.length === 0 ? [] : [String(at), streamsOf(rules)]
          const { answer } = await ask(operation, request, own, (limits) =>
            limits.force(subject.key, id, rules),
          )
          if (answer !== undefined) recentlyFired?.note(request, Math.max(answer.at, at))
        }),
      )
    }

  /**
   * Waits for all: a caller that hears of a failure releases what it has asked for, and nothing may be taken after that.
   * Where one fails, the subjects that others have paused are resumed, as the caller hears of none.
   */
  async function together<Answer>(
    works: readonly Promise<Answer>[],
    pausedBy: (answers: readonly Answer[]) => readonly Subject[] = () => [],
  ): Promise<readonly Answer[]> {
    const ends = await Promise.allSettled(works)
    const answers = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
    const failure = ends.find((end) => end.status === 'rejected')
    if (failure === undefined) return answers
    await holds.resume(pausedBy(answers))
    throw failure.reason
  }

  /** Releases a slot; true where others wait for it, which are paused under the token. */
  async function release({ subject, id, unlessFired }: SlotRelease, token: string): Promise<boolean> {
    const call = { subject, token }
    const forget = (): void => recentlyFired?.forget(subject, id, unlessFired?.after)
    forget()
    const { added } =
      unlessFired === undefined
        ? await calls.ask({ ...call, operation: 'cancel' }, (limits) => limits.cancel(subject.key, id))
        : await calls.ask(
            { ...call, operation: 'cancel unless', own: [String(Math.max(-1, unlessFired.after))] },
            // Without limits an id that counts is answered its instant.
            (limits) => limits.take(subject.key, [], { id }),
          )
    // The answer of a firing that was under way has come before this one.
    forget()
    return added[0] === 1
  }

  const askPrint = async (
    operation: string,
    { subject, fingerprint, id }: Omit<FingerprintHold, 'windowMs'>,
    ...more: readonly string[]
  ) => calls.run({ operation, subject, own: [fingerprint, id, ...more] })

  return {
    mayKeepHolds: true,
    reserve: (requests) => together(requests.map((request) => reserve(request, 'reserve'))),
    preview: (requests) => Promise.all(requests.map((request) => reserve(request, 'preview'))),
    fire: (requests) =>
      together(
        requests.map((request) => fire(request)),
        (answers) => answers.flatMap(({ freed }) => freed ?? []),
      ),
    force: force('force'),
    recount: force('recount'),
    async cancel(requests) {
      // One pause of a subject, however many of its slots are released.
      const token = calls.newToken()
      const paused = new Map<string, Subject>()
      await together(
        requests.map(async (request) => {
          if (!(await release(request, token)) || paused.has(request.subject.key)) return
          paused.set(request.subject.key, request.subject)
          holds.note(request.subject, token)
        }),
        () => [...paused.values()],
      )
      // Servers answer in any order.
      const keys = new Set(requests.map(({ subject }) => subject.key))
      return [...keys].flatMap((key) => paused.get(key) ?? [])
    },
    reservedAt: async (requests) =>
      latestReserved(
        await Promise.all(
          requests.map(async ({ subject, id }) => ({ id, entries: await readEntries(calls, subject) })),
        ),
      ),
    async planAround(requests) {
      if (plan === undefined) return
      for (const { subject, id } of requests) {
        const token = calls.newToken()
        // Nothing of the subject is fired while it is planned.
        await calls.run({ operation: 'hold', subject, own: [JSON.stringify([[token, false, true]])] })
        await plan({ subject, refused: new Set(), kept: new Set([id]) }, token)
      }
    },
    pause: holds.pause,
    resume: holds.resume,
    queueBehind: holds.queueBehind,
    async enlist(requests) {
      await Promise.all(
        requests.map(({ subject, id }) => calls.run({ operation: 'enlist', subject, own: [id] })),
      )
    },
    async delist(requests) {
      await Promise.all(
        requests.map(({ subject, id }) => calls.run({ operation: 'delist', subject, own: [id] })),
      )
    },
    async waiting(subject) {
      const [ids] = await calls.run({ operation: 'waiting', subject })
      return (ids as readonly Reply[]).map(String).sort()
    },
    advance,
    holdFingerprints: (requests) =>
      together(
        requests.map(async (request) => {
          const { windowMs, dry, inPlaceOf = '' } = request
          const [isHeld] = await askPrint('print', request, String(windowMs), flag(dry === true), inPlaceOf)
          return isHeld === 1
        }),
      ),
    async fingerprintHolder({ subject, fingerprint }) {
      const [id, since] = await askPrint('print holder', { subject, fingerprint, id: '' })
      return id === undefined ? undefined : { id: String(id), since: Number(since) }
    },
    async releaseFingerprints(requests) {
      await Promise.all(requests.map((request) => askPrint('drop print', request)))
    },
    renew: calls.renew,
    adopt: (requests, { keepsLater = false } = {}) =>
      Promise.all(
        requests.map(async (request) => {
          const { subject, id, rules, at } = request
          if (rules.length === 0) return false
          const own = [String(at), streamsOf(rules), flag(keepsLater)]
          const { answer } = await ask('adopt', request, own, (limits) =>
            limits.take(subject.key, [], { id }),
          )
          return answer !== undefined
        }),
      ),
    async close() {
      outdated.close()
      await holds.close()
    },
  }
}
