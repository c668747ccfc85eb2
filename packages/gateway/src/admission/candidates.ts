/** Makes candidates of the drafts of one request: the notifications as they would be stored, without a verdict yet. */

import type { Decision, Draft, Notification, Recipient, TimelineEvent } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, Random } from '../ports.ts'
import type { Caller, Recipients } from '../stages.ts'
import type { Candidate, Mutable } from './candidate.ts'
import { fingerprint } from './duplicates.ts'
import { createContentSplitter } from './stored-content.ts'

export interface CandidateFactoryOptions {
  readonly recipients: Pick<Recipients, 'cached' | 'findAll'>
  readonly policy: Pick<Policy, 'version'>
  readonly clock: Pick<Clock, 'now' | 'soon'>
  readonly random: Random
}

export type CandidateFactory = (caller: Caller, drafts: readonly Draft[]) => Promise<readonly Candidate[]>

/** Shared content larger than this, bytes, is read in an event loop turn of its own. */
const largeBytes = 2 ** 18
/** Bytes of content and data of single notifications that are read in one turn of the event loop: some 2 ms. */
const sliceBytes = 2 ** 15

/** The timeline of a notification that has no verdict yet. */
const noEvents: readonly TimelineEvent[] = []

export function createCandidateFactory(options: CandidateFactoryOptions): CandidateFactory {
  const { recipients, policy, clock, random } = options
  /** The decision of a notification that has no verdict yet. */
  let undecided: Decision = { outcome: 'send', policyVersion: policy.version, rules: [] }

  function notificationOf({ tenant, module }: Caller, draft: Draft, now: number): Mutable<Notification> {
    return {
      // The shared content of a draft has no id yet: the splitter puts its reference there.
      ...(draft as Omit<Draft, 'shared'>),
      id: random.id(now),
      tenant,
      module,
      createdAt: now,
      fingerprint: fingerprint(tenant, draft),
      status: 'accepted',
      dueAt: now,
      decision: undecided,
      attempts: 0,
      timeline: noEvents,
    }
  }

  /** Yields to the event loop. */
  const pause = (): Promise<void> => new Promise((resolve) => clock.soon(resolve))

  return async (caller, drafts) => {
    const now = clock.now()
    const { tenant } = caller
    if (undecided.policyVersion !== policy.version)
      undecided = { ...undecided, policyVersion: policy.version }
    const known = drafts.map(({ to }) => recipients.cached(tenant, to.id))
    const recipientRecords = known.includes(undefined)
      ? readable(await recipients.findAll(drafts.map(({ to }) => ({ tenant, recipient: to.id }))))
      : known
    const split = createContentSplitter(() => random.id(now))
    const candidates: Candidate[] = []
    let read = 0
    for (const [index, draft] of drafts.entries()) {
      // The first draft of a batch reads the content that all of them share; the event loop is free before and after.
      const isLarge = index === 0 && (draft.shared?.bytes ?? 0) > largeBytes
      if (isLarge) await pause()
      const { notification, content } = split(notificationOf(caller, draft, now), draft.shared)
      const candidate: Mutable<Candidate> = {
        notification,
        recipient: recipientRecords[index]!,
        verdict: undefined,
      }
      if (content !== undefined) candidate.content = content
      candidates.push(candidate)
      read += content?.bytes ?? notification.bytes ?? 0
      if (!isLarge && read < sliceBytes) continue
      read = 0
      await pause()
    }
    return candidates
  }
}

/** Throws the error of the first recipient that cannot be read. */
function readable(recipients: readonly (Recipient | null | Error)[]): readonly (Recipient | null)[] {
  const error = recipients.find((each) => each instanceof Error)
  if (error !== undefined) throw error
  return recipients as readonly (Recipient | null)[]
}
