/**
 * Pseudonyms under which the rows of erased recipients stay: a keyed hash of tenant and id, HMAC-SHA-256 cut to 128
 * bits. All processes of a store use the same key, which stands in its table `secret`.
 */
import { keyedHash } from '../../keyed-hash.ts'
import { pseudonymPrefix } from '../../ports.ts'

export type PseudonymOf = (tenant: string, recipient: string) => string

const hashBytes = 16

export function createPseudonyms(key: Buffer): PseudonymOf {
  const code = keyedHash(key)
  return (tenant, recipient) =>
    pseudonymPrefix + code(`${tenant}\0${recipient}`).subarray(0, hashBytes).toString('base64url')
}
