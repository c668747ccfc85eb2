/**
 * Continues the gateway's own time from process to process (docs/decisions/0017). A store holds instants of
 * this time, so a process begins where the one before left it; the state is saved when the wall clock steps,
 * every few seconds, and at the end.
 */
import type { SystemClock } from '../adapters/clock.ts'
import type { Clock, Store } from '../ports.ts'
import type { RuntimeContext } from './runtime-context.ts'

/** After a kill, no recorded instant lies further than this beyond the saved time. Costs 10 s of one fsync. */
const everyMs = 10_000

const isSystemClock = (clock: Clock): clock is SystemClock => 'continueFrom' in clock

/** Returns the function that stops saving, after a last save. Virtual time needs none of this. */
export async function continueTimeLine(
  { clock, log, errorsOf }: Pick<RuntimeContext, 'clock' | 'log' | 'errorsOf'>,
  store: Pick<Store, 'timeLine' | 'keepTimeLine'>,
): Promise<() => Promise<void>> {
  if (!isSystemClock(clock)) return async () => {}
  const onError = errorsOf('gateway')
  const line = await store.timeLine()
  if (line !== undefined) clock.continueFrom(line)
  const keep = (): Promise<void> =>
    store.keepTimeLine(clock.line()).catch((error) => onError('keep how time stands', error))
  const forget = clock.onStep((byMs) => {
    log.warn({ event: 'clock.stepped', byMs, aheadMs: clock.aheadMs() })
    void keep()
  })
  let disarm: (() => void) | undefined
  const beat = (): void => {
    disarm = clock.at(clock.now() + everyMs, () => void keep().finally(beat))
  }
  await keep()
  beat()
  return async () => {
    forget()
    disarm?.()
    await keep()
  }
}
