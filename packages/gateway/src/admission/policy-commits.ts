/**
 * Commits of admission beside a reload of the policy. A decision under a policy that is no longer in force is not
 * written: its commit is answered as a conflict, and its caller decides again. A commit that was under way when the
 * policy changed is on record with a reservation that the limiter's new state does not know: it is told there.
 */
import type { Move, Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Change } from '../ports.ts'
import type { Ledger, RecipientLimiter, Recipients } from '../stages.ts'

export interface PolicyCommitsOptions {
  readonly ledger: Pick<Ledger, 'commit'>
  readonly policy: Pick<Policy, 'version'>
  readonly limiter: Pick<RecipientLimiter, 'adopt'>
  readonly recipients: Pick<Recipients, 'find'>
  readonly onError: (what: string, error: unknown) => void
}

export function createPolicyCommits(options: PolicyCommitsOptions): Ledger['commit'] {
  const { ledger, policy, limiter, recipients, onError } = options

  const isOutdated = ({ decision }: Notification): boolean => decision.policyVersion !== policy.version

  /** Tells the limiter's state of the instants that were reserved under the policy before. */
  async function adopt(change: Change): Promise<void> {
    const written = [
      ...(change.accept ?? []),
      ...(change.moves ?? []).filter(decides).map(({ after }) => after),
    ]
    const booked = written.filter(
      ({ status, undecided }) => (status === 'scheduled' || status === 'queued') && undecided !== true,
    )
    await limiter.adopt(
      await Promise.all(
        booked.map(async (notification) => ({
          notification,
          recipient: await recipients.find(notification.tenant, notification.to.id),
        })),
      ),
    )
  }

  return async (change) => {
    const { accept, moves } = change
    if (accept?.some(isOutdated) || moves?.some((move) => decides(move) && isOutdated(move.after)))
      return { applied: false, conflicts: [] }
    const { version } = policy
    const result = await ledger.commit(change)
    if (result.applied && version !== policy.version)
      adopt(change).catch((error) => onError('tell the limits of a commit beside a reload', error))
    return result
  }
}

/** True if the move writes a new decision. */
const decides = ({ before, after }: Move): boolean => before.decision !== after.decision
