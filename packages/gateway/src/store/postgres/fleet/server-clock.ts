/**
 * Follows the clock of PostgreSQL (docs/decisions/0045): it is the one clock of all processes of a record, so that their
 * instants agree to a few milliseconds, however wrong the clocks of their machines are.
 */
import type { ServerReading, SystemClock } from '../../../adapters/clock.ts'
import type { Clock } from '../../../ports.ts'
import type { Db } from '../connection.ts'
import { type MemberClock, MemberClocks } from './member-clocks.ts'

/** The quickest of so many readings counts. */
const readingsKept = 8
/** A start reads on where the quickest answer may be wrong by more than this, ms, and reads so often at most. */
const errorMaxMs = 10
const readingsMax = 25
/** Both clocks may drift apart so far within the readings that are kept, ms. */
const driftMs = 10
/**
 * A reading that may be wrong by more than this, ms, says too little: the process was stopped, or is overloaded. Where as many
 * as are kept come in a row, the line itself is slow.
 */
const errorIgnoredMs = 100

/** The readings of a server's clock of late. */
export class ServerReadings {
  #kept: readonly ServerReading[] = []
  /** The last ones in a row that were too slow to be kept. */
  #slow: readonly ServerReading[] = []

  /** The one that may be wrong by least; undefined before the first. */
  get best(): ServerReading | undefined {
    return this.#kept.reduce<ServerReading | undefined>(
      (best, each) => (best === undefined || each.errorMs < best.errorMs ? each : best),
      undefined,
    )
  }

  add(reading: ServerReading): void {
    const { best } = this
    const isSlow = reading.errorMs > errorIgnoredMs && best !== undefined && best.errorMs <= errorIgnoredMs
    if (isSlow && this.#slow.length + 1 < readingsKept) {
      this.#slow = [...this.#slow, reading]
      return
    }
    if (isSlow) this.#kept = []
    for (const each of isSlow ? [...this.#slow, reading] : [reading]) this.#keep(each)
    this.#slow = []
  }

  #keep(reading: ServerReading): void {
    const { best } = this
    // One that cannot be true together with those before it tells that the clock was set since.
    const isSet =
      best !== undefined && Math.abs(reading.leadMs - best.leadMs) > reading.errorMs + best.errorMs + driftMs
    this.#kept = isSet ? [reading] : [...this.#kept, reading].slice(-readingsKept)
  }
}

const isFollowing = (clock: Clock): clock is SystemClock => 'follow' in clock

/** Puts the clock to that of the server, before anything is measured. Virtual time follows nothing. */
export async function takeServerClock(db: Db, clock: Clock): Promise<void> {
  if (!isFollowing(clock)) return
  const readings = new ServerReadings()
  for (let count = 1; count <= readingsMax; count += 1) {
    readings.add(await readClock(db, clock))
    if (count >= readingsKept && readings.best!.errorMs <= errorMaxMs) break
  }
  clock.follow(readings.best!)
}

export interface FollowingOptions {
  readonly db: Db
  /** The id of this process among the members. */
  readonly member: string
  readonly clock: Clock
  /** Time between two readings, ms. @defaultValue 2000 */
  readonly everyMs?: number | undefined
}

export interface FollowedClock {
  /** How wrong the clock may be, ms; undefined before the first reading, and in virtual time. */
  readonly errorMs: () => number | undefined
  end(): Promise<void>
}

/** Keeps a clock at that of the server, and at those of the other members. */
export function followServerClock({ db, member, clock, everyMs = 2_000 }: FollowingOptions): FollowedClock {
  if (!isFollowing(clock)) return { errorMs: () => undefined, end: async () => {} }
  const readings = new ServerReadings()
  const clocks = new MemberClocks()
  let isOpen = true
  let reading: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout

  const read = async (): Promise<void> => {
    try {
      const { leadMs, errorMs } = await readClock(db, clock)
      readings.add({ leadMs, errorMs })
      const best = readings.best!
      clock.follow(best)
      const own = { aheadMs: clock.line().aheadMs + leadMs - best.leadMs, errorMs }
      const [row] = await db.query<{ others: readonly MemberClock[] }>(
        'SELECT tell_clock($1, $2, $3) AS others',
        [member, own.aheadMs, own.errorMs],
        { name: 'tell clock' },
      )
      const behindMs = clocks.behindMs(own, row!.others)
      if (behindMs > 0) clock.goOn(behindMs)
    } catch {
      // The clock goes on by itself meanwhile, and the look at the members tells of a server that is away.
    }
  }

  function readAgain(): void {
    timer = setTimeout(() => {
      reading = read().then(() => {
        if (isOpen) readAgain()
      })
    }, everyMs)
    timer.unref()
  }

  readAgain()
  return {
    errorMs: () => readings.best?.errorMs,
    async end() {
      isOpen = false
      clearTimeout(timer)
      await reading
    },
  }
}

function readClock(db: Db, clock: SystemClock): Promise<ServerReading> {
  return clock.readServer(async () => {
    const [row] = await db.query<{ at: number }>(
      'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at',
      [],
      { name: 'clock' },
    )
    return row!.at
  })
}
