/**
 * Counts notifications as sent at the moment of handing over. One that its limits refuse by more than a moment shows that
 * its subject is late: those that wait there are planned again before anything else of the subject is fired.
 */
import type { SyncLimits } from '@sluice/limits'
import { RulesReplaced } from '../../errors.ts'
import type { LateSubject, PlanLate, SubjectEntries } from '../../ports/limiter.ts'
import type { Clock, Firing, LimitRequest, LimitState, Subject } from '../../ports.ts'
import { releaseOf } from './limit-terms.ts'

export interface FireOptions {
  readonly limits: Pick<SyncLimits, 'fire'>
  readonly clock: Pick<Clock, 'now'>
  /** Answers each request when its subject is known. */
  readonly each: <Answer>(
    requests: readonly LimitRequest[],
    one: (request: LimitRequest) => Answer,
  ) => Promise<readonly Answer[]>
  /** Returns the future instant that an id holds in a subject, epoch ms. */
  readonly placeOf: (subject: Subject, id: string) => number | undefined
  /** Notes the instant that an id holds in a subject now; none where it was fired. */
  readonly note: (subject: Subject, id: string, at: number | undefined) => void
  /** Pauses those of the subjects in which others wait, and returns them. */
  readonly pauseBusy: (requests: readonly LimitRequest[]) => readonly Subject[]
  /** True if other ids than this one hold an instant in the subject, also one that has passed. */
  readonly isShared: (subject: Subject, id: string) => boolean
  readonly pauses: { pause(key: string): void; resumeAll(subjects: readonly Subject[]): void }
  readonly entries: SubjectEntries
  /** Changes whenever the rules are replaced. */
  readonly generation: () => number
  /** @defaultValue nothing is planned */
  readonly planLate?: PlanLate | undefined
}

/**
 * One that its limits let leave within this time leaves no place to others, ms: behind very many, each moment of lateness
 * made all of them be looked at.
 */
const nearMs = 1_000

export function createFire(options: FireOptions): Pick<LimitState, 'fire' | 'planAround'> {
  const { limits, clock, each, placeOf, note, pauseBusy, isShared, pauses, entries, generation, planLate } =
    options
  /** Subjects that are being planned. */
  const planning = new Map<string, Promise<void>>()

  /** @returns undefined where the subject is planned first */
  function fireOne(request: LimitRequest, isPlanned: boolean): Firing | undefined {
    const { subject, id, rules, notBefore = 0 } = request
    if (!isPlanned && planning.size > 0 && planning.has(subject.key)) return undefined
    // One that is late may hold a later place, by a plan: others leave before it.
    const place = placeOf(subject, id)
    if (place !== undefined && place > clock.now() && place >= notBefore) return { fired: false, at: place }
    const { fired, at } = limits.fire(subject.key, id, rules, releaseOf(request))
    note(subject, id, fired ? undefined : at)
    if (fired || at - clock.now() <= nearMs) return { fired, at }
    if (!isPlanned && planLate !== undefined && isShared(subject, id)) {
      begin({ subject, refused: new Set([id]) })
      return undefined
    }
    const freed = pauseBusy([request])[0]
    return freed === undefined ? { fired, at } : { fired, at, freed }
  }

  function begin(late: LateSubject): void {
    const { subject } = late
    const { key } = subject
    // No newcomer takes a place that the plan may need.
    pauses.pause(key)
    const plan = planLate!(late, entries).finally(() => {
      planning.delete(key)
      pauses.resumeAll([subject])
    })
    planning.set(key, plan)
  }

  async function firePlanned(requests: readonly LimitRequest[]): Promise<readonly Firing[]> {
    const begun = generation()
    await Promise.all(requests.map(({ subject: { key } }) => planning.get(key)))
    if (generation() !== begun) throw new RulesReplaced()
    return (await each(requests, (request) => fireOne(request, true))) as readonly Firing[]
  }

  return {
    async fire(requests) {
      const answers = await each(requests, (request) => fireOne(request, false))
      if (!answers.includes(undefined)) return answers as readonly Firing[]
      const planned = await firePlanned(requests.filter((_, index) => answers[index] === undefined))
      let next = 0
      return answers.map((answer) => answer ?? planned[next++]!)
    },
    async planAround(requests) {
      if (planLate === undefined) return
      for (const { subject, id } of requests) {
        if (!planning.has(subject.key) && isShared(subject, id))
          begin({ subject, refused: new Set(), kept: new Set([id]) })
        await planning.get(subject.key)
      }
    },
  }
}
