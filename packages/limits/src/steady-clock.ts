/**
 * The machine's clock without its steps back. Where it is set back, time goes on from where it was at the clock's own
 * pace, ahead of it, until the clock has come there again: what was counted a moment ago never looks as if it were
 * still to come, which would let the whole limit through once more. A step forward is believed; it cannot be told
 * from a machine that slept.
 */
export function steadyClock(read: () => number): () => number {
  /** The last instant, and how far it was ahead: numbers in a closure would be allocated by each call. */
  const state = new Float64Array(2)
  return () => {
    let now = read()
    if (now < state[0]!) {
      if (now + state[1]! < state[0]!) state[1] = state[0]! - now
      now += state[1]!
    } else state[1] = 0
    state[0] = now
    return now
  }
}
