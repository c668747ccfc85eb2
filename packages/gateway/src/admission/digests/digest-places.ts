/**
 * The instants that are reserved for digests whose limits hold them up. A digest gives its instant up while it is planned,
 * and has its turn by it: the limits tell which instant that is, as another gateway may have reserved it.
 */
import type { Digest, Notification } from '../../model.ts'
import type { DigestSpec } from '../../policy/policy.ts'
import type { Clock } from '../../ports.ts'
import type { RecipientLimiter } from '../../stages.ts'
import type { UndoList } from '../../undo.ts'
import type { Candidate } from '../candidate.ts'
import { digestOf } from './digest-notification.ts'

export interface DigestPlacesOptions {
  readonly limiter: Pick<RecipientLimiter, 'reservedAt' | 'lift'>
  readonly clock: Pick<Clock, 'now'>
}

/** The subjects in which a digest has reserved an instant. */
interface Place {
  /** Under the id of the digest. */
  readonly notification: Notification
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
  readonly now: number
  /** Its items. */
  readonly items: readonly Notification[]
  readonly undo: UndoList
}

interface Lifted {
  /** The instant that it has given up, if there was one. */
  readonly liftedAt?: number
  /** The instant has come: only what has left stands in its way, and not those that wait behind it. */
  readonly inTurn: boolean
  /** Frees the instant unless the plan uses it. Called with whether the digest leaves. */
  letGo(leaves: boolean): Promise<void>
}

export interface DigestPlaces {
  /** Remembers what this process has reserved for a digest. */
  remember(id: string, held: Held): void
  /** Cancels the digest's reservation while it is planned. Where its change is undone, the next plan has the same turn. */
  lift(found: FoundDigest, spec?: DigestSpec): Promise<Lifted>
}

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
    async lift(found, spec) {
      const { digest, undo } = found
      const { id } = digest
      const known = places.get(id)
      const place = known ?? placeElsewhere(found, spec)
      if (place === undefined) return { inTurn: false, letGo: async () => {} }
      const reservedAt = await limiter.reservedAt(place)
      // Another process may have put it off since then, or planned it again with those that wait.
      const liftedAt = reservedAt ?? known?.at
      places.delete(id)
      undo.add(() => {
        if (liftedAt !== undefined && !places.has(id)) remember(id, { ...place, at: liftedAt })
      })
      const end = await limiter.lift(place)
      const letGo = async (leaves: boolean): Promise<void> => {
        const at = places.get(id)?.at ?? Number.POSITIVE_INFINITY
        const now = clock.now()
        const isAhead = liftedAt !== undefined && liftedAt > now
        await end(isAhead ? at !== liftedAt : !leaves && at - now > nearMs)
      }
      return liftedAt === undefined
        ? { inTurn: false, letGo }
        : { liftedAt, inTurn: liftedAt <= clock.now(), letGo }
    },
  }
}

/** Returns where another process, or this one before its last start, may have reserved an instant for a digest. */
function placeElsewhere(
  { digest, recipient, items, now }: FoundDigest,
  spec: DigestSpec | undefined,
): Place | undefined {
  const wasPutOff = spec !== undefined && digest.closesAt !== digest.openedAt + spec.windowMs
  if (!wasPutOff || items.length === 0) return undefined
  return { notification: digestOf(digest, spec, items, now), recipient }
}
