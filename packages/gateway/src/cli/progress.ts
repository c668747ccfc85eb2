/** A progress bar on standard error, for work that takes longer than a second; without a terminal nothing is shown. */
import type { Io } from './io.ts'

export interface Progress {
  /** `share` from 0 to 1. */
  show(share: number): void
  /** Ends the bar's line, if there is one. */
  end(): void
}

/** A bar appears after so long, so that quick work shows none. */
const afterMs = 1_000
const barWidth = 30

export function createProgress(io: Io, what: string, now: () => number = () => performance.now()): Progress {
  const begunAt = now()
  let shown = ''
  return {
    show(share) {
      if (io.redraw === undefined || now() - begunAt < afterMs) return
      const part = Math.max(0, Math.min(1, share))
      const filled = Math.round(part * barWidth)
      const bar = `${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)} ${Math.floor(part * 100)} % ${what}`
      if (bar === shown) return
      shown = bar
      io.redraw(bar)
    },
    end() {
      if (shown !== '') io.redraw?.('')
      shown = ''
    },
  }
}
