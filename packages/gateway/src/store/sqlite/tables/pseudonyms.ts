/**
 * Pseudonyms under which the rows of erased recipients stay: a keyed hash of tenant and id, HMAC-SHA-256 cut to 128
 * bits. The key is in a file beside the data and not in it, so that a copy of the data alone does not reveal whether
 * a recipient is in it. It is created at the first erasure.
 */
import { dirname, join } from 'node:path'
import { keptKey } from '../../../adapters/key-file.ts'
import { keyedHash } from '../../../keyed-hash.ts'
import { pseudonymPrefix } from '../../../ports.ts'
import { inMemory } from '../database.ts'

export type PseudonymOf = (tenant: string, recipient: string) => string

const hashBytes = 16

/** @throws SluiceError INVALID_CONFIG where the key can neither be read nor written */
export function createPseudonyms(path: string): PseudonymOf {
  let code: ReturnType<typeof keyedHash> | undefined
  return (tenant, recipient) => {
    code ??= keyedHash(keptKey(path === inMemory ? undefined : join(dirname(path), 'erasure.key')))
    const hash = code(`${tenant}\0${recipient}`)
    return pseudonymPrefix + hash.subarray(0, hashBytes).toString('base64url')
  }
}
