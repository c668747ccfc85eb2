/** Cancels a notification that still waits: the record first, then its holds are released, before any newcomer. */
import { type Conflicted, conflicted, retryOnConflict } from '../conflict.ts'
import { SluiceError } from '../errors.ts'
import { advance, isFinal, type Notification } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import type { Gate, Ledger, Scheduler } from '../stages.ts'
import type { PauseNewcomers } from './freed-slots.ts'
import type { ReleaseHolds } from './release-holds.ts'

export interface CancellationOptions {
  readonly store: Pick<Store, 'notification'>
  readonly ledger: Ledger
  readonly scheduler: Pick<Scheduler, 'recover'>
  readonly releaseHolds: ReleaseHolds
  readonly pauseNewcomers: PauseNewcomers
  readonly clock: Clock
}

export function createCancellation(options: CancellationOptions): Gate['cancel'] {
  const { store, ledger, scheduler, releaseHolds, pauseNewcomers, clock } = options

  async function cancelOnce(tenant: string, id: string): Promise<true | Conflicted> {
    const notification = await store.notification(tenant, id)
    if (notification === undefined) throw new SluiceError('NOT_FOUND', `There is no notification ${id}.`)
    const resume = await pauseNewcomers(notification)
    try {
      if (notification.status !== 'cancelled') return await cancelRecorded(notification)
      // Whoever cancelled it may have been killed before its holds were released, and the limits may have outlived that.
      await releaseHolds({ ...notification, status: 'scheduled' }, 'cancelled')
      return true
    } finally {
      await resume()
    }
  }

  async function cancelRecorded(notification: Notification): Promise<true | Conflicted> {
    const { id } = notification
    const live = ledger.live(id)
    if (isFinal(notification.status) || notification.status === 'sending' || live?.status === 'sending') {
      const state = isFinal(notification.status) ? notification.status : 'being sent'
      throw new SluiceError('NOT_CANCELLABLE', `Notification ${id} is ${state}.`)
    }
    const before = live?.notification ?? notification
    const path = live?.events ?? []
    ledger.release(before)
    const now = clock.now()
    const move = advance(before, [...path, { at: now, status: 'cancelled' }], { dueAt: now })
    let result: Awaited<ReturnType<Ledger['commit']>>
    try {
      result = await ledger.commit({ moves: [move] })
    } catch (error) {
      // The version that was read may be outdated by now: the record says where it stands.
      void scheduler.recover(before)
      throw error
    }
    if (!result.applied) return conflicted
    await releaseHolds(before, 'cancelled')
    return true
  }

  return async (tenant, id) => {
    let result: true | Conflicted = conflicted
    try {
      result = await retryOnConflict(() => cancelOnce(tenant, id))
    } finally {
      // An earlier try may have taken the notification out of memory.
      if (result === conflicted) await scheduler.recover({ tenant, id })
    }
    if (result === conflicted) throw new SluiceError('NOT_CANCELLABLE', `Notification ${id} is on its way.`)
  }
}
