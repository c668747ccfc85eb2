/**
 * The machine's clock without its steps back. Where it is set back, time goes on from where it was at the clock's own
 * pace, ahead of it, until the clock has come there again: what was counted a moment ago never looks as if it were
 * still to come, which would let the whole limit through once more. A step forward is believed; it cannot be told
 * from a machine that slept.
 */
export function steadyClock(read: () => number): () => number {
  let last = Number.NEGATIVE_INFINITY
  let aheadMs = 0
  return () => {
    const now = read()
    if (now >= last) aheadMs = 0
    else if (now + aheadMs < last) aheadMs = last - now
    last = now + aheadMs
    return last
  }
}
