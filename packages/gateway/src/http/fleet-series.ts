/**
 * The series of the overview over all processes of a fleet: each tells the others once a second how much it has counted
 * and measured since, and adds their shares to its own. A lost message is missing in the others' series; nothing else
 * depends on them. A process that has done nothing tells nothing.
 */
import type { Peers } from '../ports/fleet.ts'
import type { Clock } from '../ports.ts'
import type { OverviewSeries, SeriesShare } from './overview-series.ts'

export interface FleetSeriesOptions {
  readonly series: Pick<OverviewSeries, 'takeShare' | 'join'>
  readonly peers: Pick<Peers, 'tell' | 'listen'>
  readonly clock: Pick<Clock, 'now' | 'at'>
}

const everyMs = 1_000

/** Shares the series from now on; the returned function ends it. */
export function shareSeries({ series, peers, clock }: FleetSeriesOptions): () => void {
  let cancel: () => void
  function share(): void {
    const own = series.takeShare()
    if (own !== undefined) peers.tell('series', own)
    cancel = clock.at(clock.now() + everyMs, share)
  }
  share()
  const silence = peers.listen('series', (theirs) => series.join(theirs as SeriesShare))
  return () => {
    cancel()
    silence()
  }
}
