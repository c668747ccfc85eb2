/**
 * Continues the gateway's own time from process to process (docs/decisions/0017). A store holds instants of
 * this time, so a process begins where the one before left it. The state is saved when the wall clock steps or is
 * slewed, every few seconds, and at the end: a process that was killed had the exact offset of the wall clock, and the
 * next one reads nothing but the wall clock and that offset.
 */
import type { SystemClock } from '../adapters/clock.ts'
import type { Clock, Store } from '../ports.ts'
import { goWithOthers, tellTime } from './peer-time.ts'
import type { RuntimeContext } from './runtime-context.ts'

/** After a kill, no recorded instant lies further than this beyond the saved time. Costs 10 s of one fsync. */
const everyMs = 10_000
const lookMs = 1_000
/**
 * An offset that has moved by this is saved. Windows are kept 20 ms longer than asked for: a wall clock that was set forward
 * by more than that before a kill would make those that span the restart too short.
 */
const shiftMs = 5

const isSystemClock = (clock: Clock): clock is SystemClock => 'continueFrom' in clock

/** Returns the function that stops saving, after a last save. Virtual time needs none of this. */
export async function continueTimeLine(
  { clock, log, errorsOf, fleet }: Pick<RuntimeContext, 'clock' | 'log' | 'errorsOf' | 'fleet'>,
  store: Pick<Store, 'timeLine' | 'keepTimeLine'>,
): Promise<() => Promise<void>> {
  if (!isSystemClock(clock)) return async () => {}
  const onError = errorsOf('gateway')
  const line = await store.timeLine()
  if (line !== undefined) clock.continueFrom(line)
  if (fleet !== undefined) {
    const { members, state } = fleet
    await goWithOthers(clock, { members, peers: state.peers })
    tellTime(clock, state.peers)
  }
  let kept = clock.line()
  const keep = (): Promise<void> => {
    kept = clock.line()
    return store.keepTimeLine(kept).catch((error) => onError('keep how time stands', error))
  }
  const forget = clock.onStep((byMs) => {
    log.warn({ event: 'clock.stepped', byMs, aheadMs: clock.aheadMs() })
    void keep()
  })
  let isOpen = true
  let disarm: (() => void) | undefined
  let looking: Promise<void> | undefined
  const look = async (): Promise<void> => {
    const { at, aheadMs } = clock.line()
    if (at - kept.at >= everyMs || Math.abs(aheadMs - kept.aheadMs) >= shiftMs) await keep()
  }
  const beat = (): void => {
    // Behind its end it would go on for ever on a store that is closed, and keep the process alive.
    if (!isOpen) return
    disarm = clock.at(clock.now() + lookMs, () => {
      looking = look().finally(beat)
    })
  }
  await keep()
  beat()
  return async () => {
    isOpen = false
    forget()
    disarm?.()
    await looking
    await keep()
  }
}
