/**
 * Admits the drafts of one request: `candidate → verdict → committed` (candidate.ts), on one page.
 *
 *     drafts ─► candidates ─► throttle ─► evaluate and reserve ─► commit ─► schedule
 *
 * Whatever is taken on the way (a place in the throttle queue, a fingerprint, an open digest, a reservation, room in the
 * bounds of the tenant) is on one undo list: it is released unless the commit is applied. A concurrent change leads to
 * another try.
 */
import { type Conflicted, conflicted, isAmong, retryOnConflict } from '../conflict.ts'
import { SluiceError } from '../errors.ts'
import { delayingLimit, type Notification, type SharedContent } from '../model.ts'
import type { Change, Clock, Conflict, Store } from '../ports.ts'
import type { AdmitRequest, Admitted, Gate, Ledger } from '../stages.ts'
import { generationsOf } from '../state-generation.ts'
import { type UndoList, withUndo } from '../undo.ts'
import { accepted, type Candidate } from './candidate.ts'
import { contentsOf, decidedFor, digestWrites, forgetConflicting, roomFor } from './candidate-writes.ts'
import type { CandidateFactory } from './candidates.ts'
import type { DecisionWindow } from './decision-window.ts'
import type { OpenDigests } from './digests/open-digests.ts'
import { heldMsMax } from './duplicates.ts'
import type { Evaluator } from './evaluate.ts'
import type { Handover } from './handover.ts'
import type { RecipientCache } from './recipient-cache.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'

export interface AdmitOptions {
  readonly store: Pick<Store, 'answer' | 'isVersioned'>
  readonly ledger: Pick<Ledger, 'commit' | 'takeRoom'>
  readonly candidatesOf: CandidateFactory
  readonly throttle: Pick<TenantThrottle, 'pass'>
  readonly evaluator: Pick<Evaluator, 'evaluate'>
  readonly digests: Pick<OpenDigests, 'forget'>
  readonly recipients: Pick<RecipientCache, 'forget'>
  readonly handover: Handover
  /** @defaultValue all requests are decided side by side */
  readonly window?: DecisionWindow | undefined
  readonly clock: Pick<Clock, 'monotonic'>
  readonly onError: (what: string, error: unknown) => void
}

export function createAdmit(options: AdmitOptions): Gate['admit'] {
  const { store, ledger, candidatesOf, throttle, evaluator, handover, window, clock, onError } = options

  async function decide({ caller, drafts }: AdmitRequest, undo: UndoList) {
    const candidates = await candidatesOf(caller, drafts)
    const passing = throttle.pass(candidates, undo)
    const passed = passing instanceof Promise ? await passing : passing
    const begunAt = clock.monotonic()
    await evaluator.evaluate(candidates, undo)
    const released = passed?.releaseSuppressed()
    if (released instanceof Promise) await released
    return { candidates, throttleGeneration: passed?.generation, begunAt }
  }

  async function admitOnce(
    request: AdmitRequest,
    undo: UndoList,
    isRetry: boolean,
  ): Promise<readonly Admitted[] | Conflicted> {
    const { caller, job } = request
    const deciding = () => decide(request, undo)
    const decided = window?.run(request, isRetry, deciding) ?? deciding()
    const { candidates, throttleGeneration, begunAt } = await decided

    const notifications = candidates.map(accepted)
    const contents = contentsOf(candidates)
    const taking = ledger.takeRoom(caller.tenant, roomFor(notifications, contents, job !== undefined))
    const room = taking instanceof Promise ? await taking : taking
    undo.always(room.giveBack)
    const results = notifications.map(admitted)
    const change = {
      ...changeOf(request, candidates, { notifications, contents, results }),
      ...(store.isVersioned ? { decidedFor: decidedFor(candidates), sendBefore: begunAt + heldMsMax } : {}),
      ...generationsOf(caller.tenant, { throttle: throttleGeneration, room: room.generation }),
    }
    if (store.isVersioned && clock.monotonic() - begunAt > heldMsMax) return conflicted
    const result = await ledger.commit(change)
    if (!result.applied) {
      forgetConflicting(options, candidates, result.conflicts)
      await refuseRepeated(request, change, result.conflicts)
      return conflicted
    }
    undo.keep()

    handover(candidates, notifications, contents)
    return results
  }

  /** Throws where a retry would not help: the job has moved on, or the request was answered meanwhile. */
  async function refuseRepeated({ job }: AdmitRequest, { answer }: Change, conflicts: readonly Conflict[]) {
    if (job !== undefined && isAmong(conflicts, 'job', job.before.id))
      throw new SluiceError('STORE_UNAVAILABLE', `Job ${job.before.id} has moved on meanwhile.`)
    if (answer !== undefined && (await store.answer(answer)) !== undefined)
      throw new SluiceError(
        'IDEMPOTENCY_IN_PROGRESS',
        'A request with this Idempotency-Key was just accepted.',
      )
  }

  return async (request) => {
    let tries = 0
    const attempt = (undo: UndoList) => admitOnce(request, undo, tries++ > 0)
    const result = await retryOnConflict(() => withUndo(onError, attempt))
    if (result !== conflicted) return result
    throw new SluiceError('STORE_UNAVAILABLE', 'The notification met too many changes at once. Try again.', {
      retryAfterMs: 1_000,
    })
  }
}

function admitted(notification: Notification): Admitted {
  const queuedBehind = delayingLimit(notification)
  return queuedBehind === undefined ? { notification } : { notification, queuedBehind }
}

function changeOf(
  { answer, job }: AdmitRequest,
  candidates: readonly Candidate[],
  written: {
    readonly notifications: readonly Notification[]
    readonly contents: readonly SharedContent[]
    readonly results: readonly Admitted[]
  },
): Change {
  const { notifications: accept, contents, results } = written
  return {
    ...(contents.length === 0 ? {} : { contents }),
    accept,
    ...digestWrites(candidates),
    ...(answer === undefined ? {} : { answer: answer(results) }),
    ...(job === undefined ? {} : { jobs: [{ kind: 'move', ...job }] }),
  }
}
