/**
 * Composes the limits of recipients. Their state, in memory or in Redis for all processes, is filled from the record. Around
 * the limiter stand three others, from the outside in: the complaint guard paces slowed categories, newcomers stay behind
 * those whom a change of holds moves, and a duplicate that a server had lost is found when it is fired.
 */
import { createMemoryState } from '../adapters/state/memory.ts'
import { duplicatesWithheld } from '../admission/duplicates-withheld.ts'
import { createFreedSlots } from '../admission/freed-slots.ts'
import { createHeldSubjects } from '../admission/held-subjects.ts'
import { createLatePlans } from '../admission/late-plans.ts'
import { createLimiterRecovery } from '../admission/limiter-recovery.ts'
import { createForbiddenHours } from '../admission/quiet-hours.ts'
import { createRecipientLimiter } from '../admission/recipient-limiter.ts'
import type { Subject } from '../ports.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

export function createRecipientLimits(
  { config, policy: { part: policy }, parts, clock }: RuntimeContext,
  { store, ledger, recipients, holds, complaints, limits }: Storage,
  onError: (what: string, error: unknown) => void,
) {
  const { marginMs } = config.limits
  const freedSlots = createFreedSlots(onError)
  const forbiddenHours = createForbiddenHours(policy, () => clock.aheadMs?.() ?? 0, {
    untilOf: holds.untilOf,
    guardedUntil: complaints.guardedUntil,
  })
  const recover = createLimiterRecovery({
    store,
    policy,
    ledger,
    recipients,
    forbiddenHours,
    clock,
    marginMs,
    isUnsettled: () => store.unsettled && !freedSlots.isThrough(),
    ...(parts.recoveryRows === undefined ? {} : { pageRows: parts.recoveryRows }),
  })
  const onOutdated = (subject: Subject): Promise<void> => freedSlots.report([subject])
  const planLate = createLatePlans({
    store,
    ledger,
    policy,
    recipients,
    forbiddenHours,
    clock,
    marginMs,
    onMoved: freedSlots.report,
    onError,
  })
  const limitsOf = parts.limitsOf ?? limits?.limits
  const ownState =
    limitsOf?.({ marginMs, recover, rulesName: () => policy.version, onOutdated, planLate }) ??
    createMemoryState({
      clock,
      marginMs,
      recover,
      ...(parts.subjectsMax === undefined ? {} : { subjectsMax: parts.subjectsMax }),
      onOutdated,
      planLate,
    })
  const state = parts.wrapState?.(ownState) ?? ownState
  const heldSubjects = createHeldSubjects({ policy })
  const recipientLimiter = createRecipientLimiter({
    state,
    policy,
    forbiddenHours,
    clock,
    onFreed: freedSlots.report,
  })
  const withoutDuplicates = duplicatesWithheld(recipientLimiter, { state, store, policy, clock })
  const limiter = complaints.behind(heldSubjects.behind(withoutDuplicates))
  return { freedSlots, forbiddenHours, state, heldSubjects, limiter }
}
