/** Ends what still waits, on record first; what it held is given back after. */
import type { Agenda, Gate, Ledger } from '../doors.ts'
import { SluiceError } from '../errors.ts'
import { advance, isFinal } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import type { GiveBack } from './giving-back.ts'

export interface CancellationOptions {
  readonly store: Pick<Store, 'notification'>
  readonly ledger: Ledger
  readonly agenda: Pick<Agenda, 'place'>
  readonly giveBack: GiveBack
  readonly clock: Clock
}

/** A change that met another one is tried anew; more often than this it is on its way. */
const triesMax = 8

export function createCancellation(options: CancellationOptions): Gate['cancel'] {
  const { store, ledger, agenda, giveBack, clock } = options

  return async (tenant, id) => {
    for (let tries = 0; tries < triesMax; tries += 1) {
      const notification = await store.notification(tenant, id)
      if (notification === undefined) throw new SluiceError('NOT_FOUND', `There is no notification ${id}.`)
      if (notification.status === 'cancelled') return
      const live = ledger.live(id)
      if (isFinal(notification.status) || live?.status === 'sending') {
        const state = isFinal(notification.status) ? notification.status : 'being sent'
        throw new SluiceError('NOT_CANCELLABLE', `Notification ${id} is ${state}.`)
      }
      const before = live?.notification ?? notification
      const path = live?.events ?? []
      ledger.release(before)
      const now = clock.now()
      const move = advance(before, [...path, { at: now, status: 'cancelled' }], { dueAt: now })
      try {
        if ((await ledger.commit({ moves: [move] })).applied) {
          await giveBack(before, 'cancelled')
          return
        }
      } catch (error) {
        agenda.place([before])
        throw error
      }
    }
    throw new SluiceError('NOT_CANCELLABLE', `Notification ${id} is on its way.`)
  }
}
