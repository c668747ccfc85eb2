/** Who is to blame for what a call came to: the account, the recipient, or nobody. Pure. */
import type { SendResult } from '../ports.ts'

/** The recipient's own endpoint that failed or was asked too much. */
export function endpointOf(result: SendResult): string | undefined {
  return 'endpoint' in result ? result.endpoint : undefined
}

/** Whether it is the recipient's fault: it says nothing about the account. */
export function isRecipientFault(result: SendResult): boolean {
  if (endpointOf(result) !== undefined) return true
  return result.outcome === 'failed' && (result.recipientFault === true || result.pair === true)
}

/** Whether another account may carry what this one could not. */
export function mayCarryElsewhere(result: SendResult): boolean {
  return !isRecipientFault(result) || (result.outcome === 'failed' && result.pair === true)
}

/** Whether a call says that its account is in trouble. */
export function isFailure(result: SendResult): boolean {
  return (result.outcome === 'unknown' || result.outcome === 'failed') && !isRecipientFault(result)
}
