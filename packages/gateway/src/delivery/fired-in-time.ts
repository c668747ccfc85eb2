/**
 * Limits the time for which the answer of `fire` permits a call. A batch is fired request by request where limits count
 * by several subjects, and a subject that is not in memory is read from the store meanwhile: a call that was counted
 * before that would leave later than it counts, and its window would be exceeded at the provider's socket. Pure.
 *
 * Where the provider tells when a call is written, it is counted anew until then (in-flight-sends.ts), so that an answer
 * permits it for longer. On a machine whose cores are all busy a process is often not run for longer than 20 ms.
 */

/** As long as every window is kept longer for what happens on the way to the socket, ms. */
export const permitMs = 20

/** The same where the provider tells when the call is written, ms. */
const toldPermitMs = 100

/**
 * Returns the answer, or that the notification may be fired again now where the answer is too old.
 *
 * @param isTold true if the provider tells when the call is written
 */
export function firedInTime(
  answer: { readonly fired: boolean; readonly at: number },
  now: number,
  isTold: boolean,
): { readonly fired: boolean; readonly at: number } {
  return answer.fired && now - answer.at > (isTold ? toldPermitMs : permitMs)
    ? { fired: false, at: now }
    : answer
}
