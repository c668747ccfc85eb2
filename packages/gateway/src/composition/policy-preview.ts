/**
 * Previews decisions under the policy in force and under another one. Each decision is made by stages of its own over an
 * empty limiter state, which is filled from the record under that policy, as after a restart with it: nothing of the
 * running gateway is reserved, counted or changed.
 */
import { createMemoryState } from '../adapters/state/memory.ts'
import type { Candidate } from '../admission/candidate.ts'
import { createCandidateFactory } from '../admission/candidates.ts'
import { createOpenDigests } from '../admission/digests/open-digests.ts'
import { createEvaluator } from '../admission/evaluate.ts'
import { createLimiterRecovery } from '../admission/limiter-recovery.ts'
import { createForbiddenHours } from '../admission/quiet-hours.ts'
import { createRecipientLimiter } from '../admission/recipient-limiter.ts'
import { selfAddressed } from '../config/pools.ts'
import { SluiceError } from '../errors.ts'
import type { PolicyPreview, PreviewedDecision, PreviewRequest } from '../http/routes/policy-preview.ts'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, Store, Subject } from '../ports.ts'
import type { Admission } from './admission.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

export type { PolicyPreview }

/** Pages of the record that one decision reads at most, of 1,000 rows and some 10 ms each. */
const pagesMax = 50
/** The Retry-After of a preview that meets another one, ms. */
const busyRetryAfterMs = 1_000

export function createPolicyPreview(
  { config, policy: live, clock, random }: Pick<RuntimeContext, 'config' | 'policy' | 'clock' | 'random'>,
  {
    store,
    ledger,
    recipients,
    holds,
    complaints,
  }: Pick<Storage, 'store' | 'ledger' | 'recipients' | 'holds' | 'complaints'>,
  { throttle }: Pick<Admission, 'throttle'>,
): PolicyPreview {
  const addressed = selfAddressed(config.pools)
  const { marginMs } = config.limits
  let isBusy = false

  /** Decides about a candidate at an instant under a policy, from the record without the notification itself. */
  async function decide(candidate: Candidate, policy: Policy, at: number): Promise<PreviewedDecision> {
    const then: Clock = { ...clock, now: () => at }
    const { id } = candidate.notification
    const forbiddenHours = createForbiddenHours(policy, () => clock.aheadMs?.() ?? 0, {
      untilOf: holds.untilOf,
      guardedUntil: complaints.guardedUntil,
    })
    const recover = createLimiterRecovery({
      store: boundedPages(store),
      policy,
      ledger,
      recipients,
      forbiddenHours,
      clock: then,
      marginMs,
      isUnsettled: () => false,
    })
    const others = async (subject: Subject) => {
      const facts = await recover(subject)
      return {
        ...facts,
        entries: facts.entries.filter((entry) => entry.id !== id && !entry.id.startsWith(`${id}?`)),
        fingerprints: facts.fingerprints.filter((fingerprint) => fingerprint.id !== id),
        waitlist: [],
      }
    }
    const state = createMemoryState({ clock: then, marginMs, recover: others })
    const limiter = createRecipientLimiter({
      state,
      policy,
      forbiddenHours,
      clock: then,
      onFreed: () => undefined,
    })
    const evaluator = createEvaluator({
      policy,
      limiter,
      state,
      store,
      forbiddenHours,
      digests: createOpenDigests({ store, random }),
      selfAddressed: addressed,
      clock: then,
    })
    const notification: Notification = { ...candidate.notification, createdAt: at, dueAt: at }
    const each: Candidate = { ...candidate, notification, verdict: undefined }
    await throttle.preview(each)
    // The limits of its tenant and module stand in the configuration: a turn that comes before `at` delays nothing.
    if ((each.verdict?.decision.at ?? 0) <= at) each.verdict = undefined
    await evaluator.preview([each])
    const { decision, patch } = each.verdict!
    return {
      decision: { ...decision, policyVersion: policy.version },
      channel: patch?.channel ?? notification.channel,
    }
  }

  async function candidateOf({ caller, draft, notification }: PreviewRequest): Promise<Candidate> {
    if (notification !== undefined)
      return {
        notification: undecidedOf(notification),
        recipient: await recipients.find(notification.tenant, notification.to.id),
      }
    const [candidate] = await createCandidateFactory({ recipients, policy: live.part, clock, random })(
      caller,
      [draft!],
    )
    return candidate!
  }

  return async (request) => {
    if (isBusy)
      throw new SluiceError(
        'REQUEST_LIMIT_EXCEEDED',
        'Another preview of a policy is being made. One is made at a time.',
        { retryAfterMs: busyRetryAfterMs },
      )
    isBusy = true
    try {
      const candidate = await candidateOf(request)
      const at = clock.now()
      const now = await decide(candidate, live.part, at)
      const { policy = live.part, at: asked = at } = request
      const then =
        policy.version === live.part.version && asked <= at
          ? now
          : await decide(candidate, policy, Math.max(asked, at))
      return { now, then }
    } finally {
      isBusy = false
    }
  }
}

/** A notification as it would be posted again: without the traces of its decision and its way. */
function undecidedOf(notification: Notification): Notification {
  const { requestedChannel, digestId, firedAt, suspects, turnedAt, undecided, single, ...rest } = notification
  return { ...rest, channel: requestedChannel ?? notification.channel, status: 'accepted', attempts: 0 }
}

/** Bounds what one decision reads: limits that count over more of the record than that are refused. */
function boundedPages(store: Store): Pick<Store, 'counted' | 'mayHave'> {
  let pages = 0
  return {
    mayHave: (...of) => store.mayHave(...of),
    async counted(query) {
      pages += 1
      if (pages > pagesMax)
        throw new SluiceError(
          'INVALID_REQUEST',
          `The limits of this notification count over more than ${(pagesMax * query.limit).toLocaleString('en')} others, which is too much for a preview.`,
        )
      return store.counted(query)
    },
  }
}
