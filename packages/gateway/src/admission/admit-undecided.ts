/**
 * Admits drafts while the server of the limits does not answer, as the policy says by category (`onStateLost`): accepted
 * undecided and decided when it answers again (undecided-queue.ts), or refused. What is critical passes: it has a verdict
 * without any limit, and counts when it leaves. Nothing is asked of the limits; room is that of the record. A dry run
 * answers what a notification would get.
 */
import { HeldUpError, isStateAway, SluiceError } from '../errors.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock } from '../ports.ts'
import type { AdmitRequest, Gate } from '../stages.ts'
import { type AdmitOptions, createAdmit } from './admit.ts'
import { type Candidate, undecidedVerdict, type Verdict } from './candidate.ts'
import type { DecisionWindow } from './decision-window.ts'
import type { Evaluator } from './evaluate.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'
import type { Undecided } from './undecided-notifications.ts'

export interface AdmitUndecidedOptions extends AdmitOptions {
  readonly throttle: Pick<TenantThrottle, 'pass' | 'preview'>
  readonly evaluator: Pick<Evaluator, 'evaluate' | 'preview' | 'ineligibility'>
  readonly policy: Pick<Policy, 'version' | 'onStateLost'>
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  /** Notifications that wait undecided already. */
  readonly waiting: Pick<Undecided, 'hasOf'>
  /** True while this process keeps the limits in its memory. */
  readonly keepsLimits: () => boolean
}

/** Thrown for a request that is not decided any more: it waits behind others that were accepted undecided. */
class Overtaken extends Error {}

/** Decides where it can, and accepts undecided or refuses where the server of the limits does not answer. */
export function createAdmission(options: AdmitUndecidedOptions): Pick<Gate, 'admit' | 'preview'> {
  const { store, ledger, candidatesOf, throttle, evaluator, digests, recipients, handover, onError } = options
  const { policy, window, clock, waiting, keepsLimits } = options
  const always = { store, ledger, candidatesOf, digests, recipients, handover, clock, onError }
  const decided = createAdmit({ ...always, throttle, evaluator, window: window && inOrder(window) })
  const undecided = createAdmit({
    ...always,
    throttle: { pass: () => undefined },
    evaluator: {
      async evaluate(candidates) {
        for (const each of candidates) each.verdict = withoutLimits(each)
      },
    },
  })

  const withoutLimits = (candidate: Candidate): Verdict =>
    evaluator.ineligibility(candidate) ?? verdictOf(candidate)

  function verdictOf({ notification: { priority, category, sendAt = 0 } }: Candidate): Verdict {
    const now = clock.now()
    const { version: policyVersion } = policy
    if (priority === 'critical') {
      if (sendAt > now) return undecidedVerdict(policyVersion, sendAt, 'send_at')
      return {
        status: 'queued',
        dueAt: now,
        decision: { outcome: 'send', at: now, policyVersion, rules: [] },
        reserved: false,
      }
    }
    if (policy.onStateLost(category) === 'refuse')
      throw new SluiceError(
        'STATE_UNAVAILABLE',
        `The limits cannot be asked now, and the policy refuses ${category} meanwhile. Nothing was accepted.`,
        { retryAfterMs: 1_000 },
      )
    return {
      status: 'queued',
      dueAt: now,
      decision: { outcome: 'delay', reason: 'state_unavailable', policyVersion, rules: [] },
      patch: { undecided: true },
      reserved: false,
    }
  }

  /** Refuses a request whose recipient is held up, where the policy refuses one of its categories: others are decided. */
  function refuseHeldUp({ drafts }: Pick<AdmitRequest, 'drafts'>, { message }: HeldUpError): void {
    const isRefused = ({ priority, category }: (typeof drafts)[number]): boolean =>
      priority !== 'critical' && policy.onStateLost(category) === 'refuse'
    const refused = drafts.find(isRefused)?.category
    if (refused === undefined) return
    const detail = `${message} The policy refuses ${refused} meanwhile. Nothing was accepted.`
    throw new SluiceError('STATE_UNAVAILABLE', detail, { retryAfterMs: 1_000 })
  }

  /** True for a request that waits behind what the same tenant has waiting undecided. */
  const isBehind = ({ caller, drafts }: Pick<AdmitRequest, 'caller' | 'drafts'>): boolean =>
    drafts.some(({ category, to }) => waiting.hasOf(caller.tenant, category, to.id)) &&
    drafts.every(
      ({ priority, category }) => priority !== 'critical' && policy.onStateLost(category) !== 'refuse',
    )

  /** Looks again when the turn of a request has come: others to the same recipient may have been accepted undecided meanwhile. */
  function inOrder(turns: DecisionWindow): DecisionWindow {
    return {
      run: (request, isRetry, decide) =>
        turns.run(request, isRetry, () => {
          if (request.job === undefined && (isWithheld(request) || isBehind(request))) throw new Overtaken()
          return decide()
        }),
    }
  }

  /** True for a request with a category that is not shared, while this process keeps the limits. */
  const isWithheld = ({ drafts }: Pick<AdmitRequest, 'drafts'>): boolean =>
    keepsLimits() &&
    drafts.some(
      ({ priority, category }) => priority !== 'critical' && policy.onStateLost(category) !== 'share',
    )

  async function previewed(candidate: Candidate): Promise<Verdict> {
    try {
      await throttle.preview(candidate)
      await evaluator.preview([candidate])
      return candidate.verdict!
    } catch (error) {
      if (isStateAway(error)) return withoutLimits(candidate)
      throw error
    }
  }

  return {
    admit(request) {
      // A batch in the background is tried again by its runner.
      if (request.job !== undefined) return decided(request)
      if (isWithheld(request) || isBehind(request)) return undecided(request)
      return decided(request).catch((error: unknown) => {
        if (error instanceof Overtaken) return undecided(request)
        if (!isStateAway(error)) throw error
        if (error instanceof HeldUpError) refuseHeldUp(request, error)
        return undecided(request)
      })
    },
    async preview(caller, draft) {
      const [each] = await candidatesOf(caller, [draft])
      const asked = { caller, drafts: [draft] }
      const isUndecided = isWithheld(asked) || isBehind(asked)
      const { patch, decision } = isUndecided ? withoutLimits(each!) : await previewed(each!)
      return { draft: patch?.channel === undefined ? draft : { ...draft, channel: patch.channel }, decision }
    },
  }
}
