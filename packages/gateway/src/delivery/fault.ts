/** Attributes a failed call to its account, its recipient, or neither. Pure. */
import type { SendResult } from '../ports.ts'

/** Returns the recipient's own endpoint that failed or was rate limited. */
export function endpointOf(result: SendResult): string | undefined {
  return 'endpoint' in result ? result.endpoint : undefined
}

/** Tests if the result is the recipient's fault: it says nothing about the account. */
export function isRecipientFault(result: SendResult): boolean {
  if (endpointOf(result) !== undefined) return true
  return result.outcome === 'failed' && (result.recipientFault === true || result.pair === true)
}

/** Tests if another account may carry a notification that this one could not. */
export function mayCarryElsewhere(result: SendResult): boolean {
  return !isRecipientFault(result) || (result.outcome === 'failed' && result.pair === true)
}

/** Tests if the result counts as a failure of the account. */
export function isFailure(result: SendResult): boolean {
  return (result.outcome === 'unknown' || result.outcome === 'failed') && !isRecipientFault(result)
}
