/**
 * The faults of a run, by its seed. Some stand at an instant (kills, pauses, steps of the wall clock, clean restarts), the
 * others at single calls of a port (delays, refusals, lost answers). Each has a name, and the shrinker leaves out those
 * that a failure does not need.
 */
import type { Settings } from './settings.ts'
import type { World } from './world.ts'

/** Where a kill meets the call at which it strikes. */
type Moment = 'before' | 'performed' | 'answered'

/** The fate of one call of a port. */
export interface Fate {
  /** Time until the engine gets the call, ms. */
  readonly requestMs: number
  /** Time until the answer arrives, ms. */
  readonly answerMs: number
  /** `refused`: not performed; `lost`: performed, and the answer is an error. */
  readonly failure?: 'refused' | 'lost'
  readonly kill?: Moment
}

export interface PortTerms {
  /** Delay of each call in quiet times, ms at most. */
  readonly usualMs: number
  /** Delay of a call that is held up, ms at most. */
  readonly requestMsMax: number
  readonly answerMsMax: number
  /** Share of the calls that are held up. @defaultValue that of the run */
  readonly delayShare?: number
  readonly mayBeRefused: boolean
  /** Share of the calls that are refused. @defaultValue that of the run */
  readonly refusedShare?: number
  readonly mayBeLost: boolean
  /** A call of the provider. @defaultValue false */
  readonly isSend?: boolean
}

interface Kill {
  readonly name: string
  readonly at: number
  /** Calls of ports that go on as usual after the instant. */
  left: number
  readonly moment: Moment
  /** It strikes at a call of the provider. */
  readonly isAtSend: boolean
}

export interface Faults {
  /** Names of all faults that have struck. */
  readonly struck: Set<string>
  fateOf(name: string, terms: PortTerms): Fate
  /** True if the kill of this call strikes at the moment. */
  strikesAt(moment: Moment, fate: Pick<Fate, 'kill'>): boolean
  /** True while the engines are disturbed. */
  isDisturbed(): boolean
}

/** @param mustSurvive true while a kill would lose what nobody could know afterwards */
export function createFaults(
  world: World,
  { faults, trafficMs }: Settings,
  without: ReadonlySet<string>,
  mustSurvive: () => boolean,
): Faults {
  const struck = new Set<string>()
  const kills: Kill[] = faults.kills
    .map(({ at, after, moment, isAtSend = false }, index) => ({
      name: `kill-${index}`,
      at,
      left: after,
      moment,
      isAtSend,
    }))
    .filter(({ name }) => !without.has(name))

  const isDisturbed = (): boolean =>
    faults.phases.some(({ from, to }) => from <= world.elapsed() && world.elapsed() < to)

  function killNow(isSend: boolean): Kill | undefined {
    const next = kills[0]
    if (next === undefined || world.elapsed() < next.at || mustSurvive()) return undefined
    if (next.isAtSend && (!isSend || world.elapsed() > trafficMs)) return undefined
    if (next.left > 0) {
      next.left -= 1
      return undefined
    }
    kills.shift()
    struck.add(next.name)
    return next
  }

  function strikes(name: string, share: number): boolean {
    if (share === 0 || without.has(name) || world.draw(name) >= share) return false
    struck.add(name)
    return true
  }

  function delayOf(
    name: string,
    { usualMs, delayShare = faults.delayShare }: PortTerms,
    maxMs: number,
  ): number {
    const usual = usualMs === 0 ? 0 : world.between(`${name} usual`, 0, usualMs)
    if (maxMs === 0 || !strikes(name, delayShare)) return usual
    // Mostly short: the cube of a uniform draw. Where much is held up, all lengths are met.
    const power = delayShare > faults.delayShare ? 1 : 3
    return usual + Math.floor(world.draw(`${name} ms`) ** power * maxMs)
  }

  return {
    struck,
    isDisturbed,
    // Asked again: the clock may have been stepped since the call was sent.
    strikesAt: (moment, { kill }) => kill === moment && !mustSurvive(),
    fateOf(name, terms) {
      const kill = killNow(terms.isSend === true)
      const isQuiet = !isDisturbed()
      const fate = {
        requestMs: delayOf(`${name} late`, terms, isQuiet ? 0 : terms.requestMsMax),
        answerMs: delayOf(`${name} slow`, terms, isQuiet ? 0 : terms.answerMsMax),
        ...(kill === undefined ? {} : { kill: kill.moment }),
      }
      if (isQuiet) return fate
      const { refusedShare = faults.refusedShare } = terms
      if (terms.mayBeRefused && strikes(`${name} refused`, refusedShare))
        return { ...fate, failure: 'refused' }
      if (terms.mayBeLost && strikes(`${name} lost`, faults.lostShare)) return { ...fate, failure: 'lost' }
      return fate
    },
  }
}
