/**
 * Writes that a waiting notification has an earlier instant, whoever changes it meanwhile; or the later one that it was
 * planned at behind what was due while no gateway ran.
 */
import type { Notification } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import type { Ledger, Scheduler } from '../stages.ts'
import type { Verdict } from './candidate.ts'
import { moveTo } from './evaluate.ts'

export interface MoveUpWriterOptions {
  readonly store: Pick<Store, 'notification'>
  readonly ledger: Pick<Ledger, 'commit' | 'live' | 'release'>
  readonly scheduler: Pick<Scheduler, 'place' | 'recover'>
  readonly clock: Pick<Clock, 'now'>
  readonly onError: (what: string, error: unknown) => void
}

export interface MoveUpWriter {
  /** True if it still waits for its instant, or for its expiry. A queued notification is about to leave. */
  waits(notification: Notification): boolean
  /** `gone` where it does not wait any more. */
  write(found: Notification, verdict: Verdict): Promise<'written' | 'failed' | 'gone'>
}

/** A record that moves on again and again is on its way. */
const triesMax = 8

export function createMoveUpWriter(options: MoveUpWriterOptions): MoveUpWriter {
  const { store, ledger, scheduler, clock, onError } = options

  function waits(notification: Notification): boolean {
    const { id, status, undecided } = notification
    if (status !== 'scheduled' || (ledger.live(id)?.status ?? status) !== 'scheduled') return false
    return undecided !== true || isDoomed(notification)
  }

  async function write(found: Notification, verdict: Verdict): Promise<'written' | 'failed' | 'gone'> {
    // The version in memory, which must not leave while the change is under way: what was read is another object.
    let before: Notification | undefined = ledger.live(found.id)?.notification ?? found
    const detail = verdict.dueAt > found.dueAt ? 'behind what was due while no gateway ran' : 'moved up'
    for (let tries = 0; before !== undefined && waits(before) && tries < triesMax; tries += 1) {
      const path = ledger.live(before.id)?.events ?? []
      ledger.release(before)
      const move = moveTo(before, clock.now(), { ...verdict, detail }, path)
      try {
        if ((await ledger.commit({ moves: [move] })).applied) {
          scheduler.place([move.after])
          return 'written'
        }
      } catch (error) {
        // Its place in the limits is the earlier one; it leaves when it was promised to.
        scheduler.place([before])
        onError('move up', error)
        return 'failed'
      }
      before = ledger.live(found.id)?.notification ?? (await store.notification(found.tenant, found.id))
    }
    await scheduler.recover(found)
    return 'gone'
  }

  return { waits, write }
}

/** Its limits would have let it leave only after its end. */
function isDoomed({ undecided, dueAt, expiresAt, decision }: Notification): boolean {
  return undecided === true && dueAt === expiresAt && decision.reason !== 'send_at'
}
