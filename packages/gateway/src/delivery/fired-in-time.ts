/**
 * Limits the time for which the answer of `fire` permits a call. A batch is fired request by request where limits count
 * by several subjects, and a subject that is not in memory is read from the store meanwhile: a call that was counted
 * before that would leave later than it counts, and its window would be exceeded at the provider's socket. Pure.
 */

/** As long as every window is kept longer for what happens on the way to the socket, ms. */
export const permitMs = 20

/** Returns the answer, or that the notification may be fired again now where the answer is too old. */
export function firedInTime(
  answer: { readonly fired: boolean; readonly at: number },
  now: number,
): { readonly fired: boolean; readonly at: number } {
  return answer.fired && now - answer.at > permitMs ? { fired: false, at: now } : answer
}
