/** Fingerprints of one recipient: the first notification with a fingerprint holds it for the window of deduplication. */
import type { FingerprintHold } from '../../ports.ts'

/** The id that holds each fingerprint, and since when. */
export type Claims = Map<string, { readonly id: string; readonly at: number }>

/** Above so many fingerprints those beyond their window are dropped. */
const claimsTidyAt = 64

/** Holds a fingerprint; false where another id holds it. */
export function claim(
  claims: Claims,
  {
    fingerprint,
    id,
    windowMs,
    dry,
  }: Pick<FingerprintHold, 'fingerprint' | 'id' | 'windowMs'> & { dry: boolean | undefined },
  now: number,
): boolean {
  const first = claims.get(fingerprint)
  if (first !== undefined && first.id !== id && now < first.at + windowMs) return false
  if (dry === true) return true
  if (claims.size >= claimsTidyAt) {
    for (const [key, held] of claims) if (held.at + windowMs <= now) claims.delete(key)
  }
  claims.set(fingerprint, { id, at: now })
  return true
}
