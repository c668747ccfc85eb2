/**
 * The keys of counts: one for a recipient, one for each value set of a limit that is not per recipient. A
 * recipient's key holds one slash and the others two, so none is ever taken for another.
 */
import type { Subject } from '../ports.ts'
import { flush } from './hash.ts'
import { escapeValue } from './selector.ts'

/** The limiter takes keys of up to 1,024 characters; an address for push may have 4,096. */
const keyLengthMax = 1_024

/** The subject of a recipient within a tenant: all limits of a recipient are checked and counted as one. */
export function recipientSubject(tenant: string, recipient: string): Subject {
  return {
    key: flush(`${escapeValue(tenant)}/${escapeValue(recipient)}`, keyLengthMax),
    tenant,
    recipient,
  }
}

/** @param values - as `valuesText` writes them; empty for a limit on the whole tenant */
export function valuesSubject(tenant: string, values: string): Subject {
  return { key: flush(`${escapeValue(tenant)}//${values}`, keyLengthMax), tenant }
}
