/** Tells which authors of a digest their limits admit: items of the others stay behind, and do not hold it up. */
import type { Notification } from '../../model.ts'
import type { Clock } from '../../ports.ts'
import type { RecipientLimiter, ReservationRequest } from '../../stages.ts'

export interface AdmissibleAuthors {
  readonly authors: ReadonlySet<string>
  /** The instant from which the first of the others is admitted; infinite where no limit will admit one. */
  readonly earliest: number
  /** That author. */
  readonly first: string
}

/** Authors previewed in one event loop turn, some 5 ms. */
const authorsMax = 100

export async function admissibleAuthors(
  { limiter, clock }: { readonly limiter: Pick<RecipientLimiter, 'preview'>; readonly clock: Clock },
  digest: Notification,
  terms: Pick<ReservationRequest, 'recipient' | 'inTurn' | 'notBefore'>,
): Promise<AdmissibleAuthors> {
  const authors = new Set<string>()
  let earliest = Number.POSITIVE_INFINITY
  let first = ''
  for (const [index, author] of (digest.actors ?? []).entries()) {
    if (index % authorsMax === authorsMax - 1) await new Promise<void>((resolve) => clock.soon(resolve))
    const notification = { ...digest, actors: [author] }
    const [reservation] = await limiter.preview([{ ...terms, notification, waitOnly: true, waited: true }])
    if (reservation!.allowed) authors.add(author)
    else if (reservation!.at < earliest) {
      earliest = reservation!.at
      first = author
    }
  }
  return { authors, earliest, first }
}
