/**
 * Evaluates a batch of candidates: opt-out and address (eligibility.ts), duplicates (duplicates.ts), digests
 * (digest-collector.ts), then limits and quiet hours (apply-limits.ts), which find the earliest time that all of them
 * admit. Each step makes one call for all candidates that have no verdict yet.
 */

import type { Channel, Notification } from '../model.ts'
import { advance } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'
import type { UndoList } from '../undo.ts'
import { createLimitApplication } from './apply-limits.ts'
import {
  type Candidate,
  type Evaluation,
  type EvaluationMode,
  eventOf,
  expiresBeforeItMayLeave,
  patchOf,
  type Verdict,
} from './candidate.ts'
import { createDigestCollector } from './digests/digest-collector.ts'
import type { OpenDigests } from './digests/open-digests.ts'
import { createDuplicates, type DuplicatesOptions } from './duplicates.ts'
import { createEligibility } from './eligibility.ts'
import type { ForbiddenHours } from './quiet-hours.ts'

export interface EvaluatorOptions {
  readonly policy: Policy
  readonly limiter: RecipientLimiter
  readonly state: DuplicatesOptions['state']
  readonly store: DuplicatesOptions['store']
  readonly forbiddenHours: ForbiddenHours
  readonly digests: OpenDigests
  /** Channels that need no recipient address. */
  readonly selfAddressed: ReadonlySet<Channel>
  readonly clock: Clock
}

export interface Evaluator {
  /** Gives every candidate its verdict. Whatever the verdicts take is entered in the undo list. */
  evaluate(candidates: readonly Candidate[], undo: UndoList, mode?: EvaluationMode): Promise<void>
  /** Gives every candidate the verdict that `evaluate` would give it now, and takes nothing. */
  preview(candidates: readonly Candidate[], mode?: EvaluationMode): Promise<void>
  /** Returns the verdict of suppression where preferences or addresses alone forbid the notification. */
  ineligibility(candidate: Candidate): Verdict | undefined
  /** Returns a new verdict where a scheduled notification may leave earlier, or holds a later instant than on record. */
  advance(candidate: Candidate): Promise<Verdict | undefined>
}

export function createEvaluator(options: EvaluatorOptions): Evaluator {
  const { policy, limiter, state, store, forbiddenHours, digests, selfAddressed, clock } = options
  const ineligibility = createEligibility({ selfAddressed })
  const duplicates = createDuplicates({ policy, state, limiter, store, clock })
  const digestCollector = createDigestCollector({ policy, digests })
  const limitApplication = createLimitApplication({
    policy,
    limiter,
    forbiddenHours,
    digestCollector,
    ineligibility,
    clock,
  })

  async function decide(candidates: readonly Candidate[], evaluation: Evaluation): Promise<void> {
    const { again, waitOnly } = evaluation
    for (const candidate of candidates) {
      const refused = ineligibility(candidate, candidate.notification.channel, evaluation)
      if (refused !== undefined) candidate.verdict = refused
    }
    const taken = again === true ? [] : await duplicates.suppress(candidates, evaluation)
    for (const candidate of candidates) {
      if (candidate.verdict !== undefined) continue
      const spec = waitOnly === true ? undefined : digestCollector.specFor(candidate)
      if (spec === undefined) {
        candidate.verdict = expiresBeforeItMayLeave(candidate.notification, evaluation, forbiddenHours)
        continue
      }
      const collecting = digestCollector.collect(candidate, spec, evaluation)
      if (collecting !== undefined) await collecting
    }
    await limitApplication.applyLimits(
      candidates.filter(({ verdict }) => verdict === undefined),
      evaluation,
    )
    if (taken.length > 0) await duplicates.releaseSuppressed(taken, evaluation)
  }

  const begun = () => ({ now: clock.now(), policyVersion: policy.version })

  return {
    evaluate: (candidates, undo, mode) => decide(candidates, { ...mode, ...begun(), undo }),
    preview: (candidates, mode) => decide(candidates, { ...mode, ...begun() }),
    ineligibility: (candidate) => ineligibility(candidate, candidate.notification.channel, begun()),
    advance: (candidate) => limitApplication.advance(candidate, clock.now()),
  }
}

/** Builds the move of a stored notification to its verdict. */
export function moveTo(
  before: Notification,
  now: number,
  verdict: Verdict,
  path: Notification['timeline'] = [],
) {
  return advance(before, [...path, eventOf(now, verdict)], patchOf(verdict))
}
