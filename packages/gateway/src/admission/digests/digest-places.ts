/**
 * The instants that are reserved for digests whose limits hold them up. A digest gives its instant up while it is planned,
 * and has its turn by it: the limits tell which instant that is, as another gateway may have reserved it.
 */
import type { Digest, Notification } from '../../model.ts'
import type { Clock } from '../../ports.ts'
import type { RecipientLimiter, ReservationRequest } from '../../stages.ts'
import type { UndoList } from '../../undo.ts'
import type { Candidate } from '../candidate.ts'

export interface DigestPlacesOptions {
  readonly limiter: Pick<RecipientLimiter, 'reservedAt' | 'lift'>
  readonly clock: Pick<Clock, 'now'>
}

/** The subjects in which a digest has reserved an instant. */
interface Place {
  /** Under the id of the digest. */
  readonly notification: ReservationRequest['notification']
  readonly recipient: Candidate['recipient']
}

/** The reservation of a digest that its limits hold up. */
interface Held extends Place {
  readonly at: number
}

/** A digest that is about to be planned. */
interface FoundDigest {
  readonly digest: Digest
  readonly recipient: Candidate['recipient']
  readonly undo: UndoList
}

interface Lifted {
  /** The instant that it has given up, if there was one. */
  readonly liftedAt?: number
  /** The instant has come: only what has left stands in its way, and not those that wait behind it. */
  readonly inTurn: boolean
  /** Frees the instant unless the plan uses it. Called with what leaves of the digest. */
  letGo(leaving?: Pick<Notification, 'actors'>): Promise<void>
}

export interface DigestPlaces {
  /** Remembers what this process has reserved for a digest. */
  remember(id: string, held: Held): void
  /** Returns what it has remembered. */
  forget(id: string): Held | undefined
  /** Cancels the digest's reservation while it is planned. Where its change is undone, the next plan has the same turn. */
  lift(found: FoundDigest): Promise<Lifted>
}

type HeldAs = NonNullable<Digest['heldAs']>

/** The most authors in whose limits a digest holds its instant. */
const authorsMax = 1_000
/** Digests whose reservations are remembered, 1 kB each; forgotten reservations are held until their time. */
const placesMax = 10_000
/** A digest that leaves this much later than it was to leave, ms, leaves its place to those that wait behind it, as at `fire`. */
export const nearMs = 1_000

export function createDigestPlaces({ limiter, clock }: DigestPlacesOptions): DigestPlaces {
  /** By digest id. */
  const places = new Map<string, Held>()

  function remember(id: string, held: Held): void {
    if (places.size >= placesMax) places.delete(places.keys().next().value!)
    places.set(id, held)
  }

  return {
    remember,
    forget(id) {
      const known = places.get(id)
      places.delete(id)
      return known
    },
    async lift(found) {
      const { digest, undo } = found
      const { id } = digest
      const known = places.get(id)
      const held = placesOf(found, known)
      const [place] = held
      if (place === undefined) return { inTurn: false, letGo: async () => {} }
      let reservedAt: number | undefined
      for (const each of held) reservedAt ??= await limiter.reservedAt(each)
      // Another process may have put it off since then, or planned it again with those that wait.
      const liftedAt = reservedAt ?? known?.at
      places.delete(id)
      undo.add(() => {
        if (liftedAt !== undefined && !places.has(id)) remember(id, { ...(known ?? place), at: liftedAt })
      })
      const ends: ((isFree: boolean) => Promise<void>)[] = []
      try {
        for (const each of held) ends.push(await limiter.lift(each))
      } catch (error) {
        // Nobody else would end the pauses of those that were lifted.
        for (const end of ends) await end(false)
        throw error
      }
      const letGo: Lifted['letGo'] = async (leaving) => {
        const anew = places.get(id)
        const at = anew?.at ?? Number.POSITIVE_INFINITY
        const now = clock.now()
        const isAhead = liftedAt !== undefined && liftedAt > now
        const isLater = isAhead ? at !== liftedAt : at - now > nearMs
        const authors = leaving && new Set(leaving.actors)
        // It has left the limits of authors who are not among those for whom it leaves, or is held now, whatever its instant.
        for (const [index, end] of ends.entries()) {
          const { notification } = held[index]!
          const leaves =
            !isAhead &&
            authors !== undefined &&
            (notification.actors ?? []).every((each) => authors.has(each))
          await end(!leaves && (isLater || !isSame(notification, anew?.notification)))
        }
      }
      return liftedAt === undefined
        ? { inTurn: false, letGo }
        : { liftedAt, inTurn: liftedAt <= clock.now(), letGo }
    },
  }
}

/**
 * Returns where an instant is reserved for a digest: as the record tells, and as this process knows where its change of the
 * record has failed, or where another process has reserved it for other authors since.
 */
function placesOf({ digest, recipient }: FoundDigest, known: Held | undefined): readonly Place[] {
  const { heldAs } = digest
  const places: readonly Place[] =
    heldAs === undefined ? [] : [{ notification: heldNotification(digest, heldAs), recipient }]
  if (known === undefined || places.some((each) => isSame(each.notification, known.notification)))
    return places
  return [...places, known]
}

/** Objects that are made alike, so that their fields have one order. */
const isSame = (one: object | undefined, other: object | undefined): boolean =>
  JSON.stringify(one) === JSON.stringify(other)

/** True where a digest that is held up has the instant on record that it had before, in the same limits. */
export const isSameHold = (one: Digest, other: Digest): boolean =>
  one.closesAt === other.closesAt && isSame(one.heldAs, other.heldAs)

/** Returns what the limits see of a digest that they hold up. */
export function heldNotification(digest: Digest, heldAs: HeldAs): ReservationRequest['notification'] {
  const { id, tenant, channel, category } = digest
  return { id, tenant, channel, category, ...heldAs }
}

/** Returns as what a digest that is held up stands on record. */
export function heldAsOf({ module, to, priority, template, actors = [] }: Notification): HeldAs {
  return {
    ...{ module, to, priority, actors: actors.slice(0, authorsMax) },
    ...(template === undefined ? {} : { template }),
  }
}
