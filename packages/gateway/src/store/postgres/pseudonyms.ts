/**
 * Pseudonyms under which the rows of erased recipients stay: a keyed hash of tenant and id, HMAC-SHA-256 cut to 128
 * bits. All processes of a store use the same key, which stands in its table `secret`.
 */
import { createHmac } from 'node:crypto'
import { pseudonymPrefix } from '../../ports.ts'

export type PseudonymOf = (tenant: string, recipient: string) => string

const hashBytes = 16

export const createPseudonyms =
  (key: Buffer): PseudonymOf =>
  (tenant, recipient) => {
    const hash = createHmac('sha256', key).update(`${tenant}\0${recipient}`).digest()
    return pseudonymPrefix + hash.subarray(0, hashBytes).toString('base64url')
  }
