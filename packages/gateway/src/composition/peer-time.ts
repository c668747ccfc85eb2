/**
 * Begins at the time of the gateways that run already (docs/decisions/0045). Where the clock of PostgreSQL was set within the last
 * seconds, they have not read it yet, and the record does not tell by how much their time and that clock differ now.
 */
import type { ServerReading, SystemClock } from '../adapters/clock.ts'
import type { Members, Peers } from '../ports/fleet.ts'

const topic = 'time'
/** The others are asked for so long, and with such a pause between, ms: a process that has just come knows nobody yet. */
const askMs = 500
const pauseMs = 20
const answerMs = 200
/** The quickest of so many answers counts. */
const readingsMin = 5
/** Times of processes may differ so far beside what the reading may be wrong, ms: windows are kept as much longer. */
const slackMs = 20

/** Takes the time of another process where this one is apart from it. To be called before anything is measured. */
export async function goWithOthers(
  clock: SystemClock,
  { members, peers }: { readonly members: Pick<Members, 'count'>; readonly peers: Pick<Peers, 'ask'> },
): Promise<void> {
  if (members.count() === 1) return
  let best: ServerReading | undefined
  const until = clock.monotonic() + askMs
  for (let readings = 0; clock.monotonic() < until && readings < readingsMin; ) {
    const reading = await clock.readServer(() => askTime(peers)).catch(() => undefined)
    if (reading === undefined) {
      await new Promise<void>((resolve) => clock.at(clock.now() + pauseMs, resolve))
      continue
    }
    readings += 1
    if (best === undefined || reading.errorMs < best.errorMs) best = reading
  }
  if (best === undefined) return
  const { at, aheadMs } = clock.line()
  const apartMs = best.leadMs + clock.monotonic() - at
  if (Math.abs(apartMs) <= best.errorMs + slackMs) return
  clock.continueFrom({ at: at + apartMs, aheadMs: aheadMs - apartMs })
}

/** Tells the time of this process to those that start. */
export function tellTime(clock: Pick<SystemClock, 'now'>, peers: Pick<Peers, 'answer'>): void {
  peers.answer(topic, () => clock.now())
}

async function askTime(peers: Pick<Peers, 'ask'>): Promise<number> {
  const { answers } = await peers.ask(topic, null, { withinMs: answerMs, isEnough: () => true })
  const [at] = answers.values()
  if (typeof at !== 'number') throw new Error('no other process has told its time')
  return at
}
