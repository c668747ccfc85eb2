/** Reserves the slots of one waiting notification anew, where the limits of all of its subjects admit it earlier. */
import type { SyncLimits } from '@sluice/limits'
import type { Advance, Clock, LimitRequest, Reservation, Subject } from '../../ports.ts'
import { termsOf } from './limit-terms.ts'

export interface AdvanceOptions {
  readonly limits: Pick<SyncLimits, 'reserve' | 'cancel' | 'restore'>
  readonly clock: Pick<Clock, 'now'>
  /** Returns the future instant that an id holds in a subject, epoch ms. */
  readonly placeOf: (subject: Subject, id: string) => number | undefined
  /** Notes the instant that an id holds in a subject now. */
  readonly note: (subject: Subject, id: string, at: number) => void
  /** Pauses those of the subjects in which others wait, and returns them. */
  readonly pauseBusy: (requests: readonly LimitRequest[]) => readonly Subject[]
  /** True while others move up in a subject. */
  readonly isMovingUp: (key: string) => boolean
}

/**
 * Returns the requests that limits count. Any other is not on record of its subject, which need not be filled: with a
 * limit over all recipients, each who waits has such a subject.
 */
export function limitedOf(all: readonly LimitRequest[]): readonly LimitRequest[] {
  const limited = all.filter(({ rules }) => rules.length > 0)
  return limited.length > 0 ? limited : all
}

/** Advances in one turn of the event loop: nobody sees what stands where until all agree. */
export function createAdvance({ limits, clock, placeOf, note, pauseBusy, isMovingUp }: AdvanceOptions) {
  return (all: readonly LimitRequest[], isNewcomer: boolean): Advance | undefined => {
    const requests = limitedOf(all)
    if (isNewcomer && requests.some(({ subject }) => isMovingUp(subject.key))) return undefined
    const held = requests.map(({ subject, id }) => placeOf(subject, id))
    const from = held[0]
    if (from === undefined || from <= clock.now() || held.some((at) => at !== from)) return undefined
    const isLater = all.some(({ promisedAt = from }) => promisedAt < from)
    const cancelAll = (): void => {
      for (const { subject, id } of requests) limits.cancel(subject.key, id)
    }
    let first: readonly Reservation[] | undefined
    for (let notBefore: number | undefined; ; ) {
      cancelAll()
      const reservations = requests.map((request) =>
        limits.reserve(request.subject.key, request.rules, {
          ...termsOf(request),
          ...(notBefore === undefined ? {} : { notBefore }),
        }),
      )
      first ??= reservations
      const at = Math.max(
        ...reservations.map((reservation) => (reservation.held ? reservation.at : Number.POSITIVE_INFINITY)),
      )
      if (at >= from) break
      if (reservations.every((reservation) => reservation.at === at)) {
        for (const { subject, id } of all) if (placeOf(subject, id) !== undefined) note(subject, id, at)
        return { at, from, reservations: first, freed: pauseBusy(requests) }
      }
      notBefore = at
    }
    cancelAll()
    for (const { subject, id, rules } of requests) {
      const streams = rules.map((rule) => rule.stream)
      limits.restore(subject.key, [{ id, at: from, fired: false, streams }])
    }
    return isLater ? { at: from, from, reservations: first, freed: [] } : undefined
  }
}
