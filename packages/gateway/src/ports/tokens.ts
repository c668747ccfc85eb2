/** The port by which tokens of callers are verified. */

/** The verified claims of a bearer token. */
export type Claims = Readonly<Record<string, unknown>>

/** Verifies bearer tokens by their signing keys. */
export interface Tokens {
  /**
   * Returns the claims of a token whose signature, issuer, audience and times are valid; `exp` is among them. Throws
   * UNAUTHENTICATED, or KEYS_UNAVAILABLE where the keys cannot be fetched now.
   */
  verify(token: string): Promise<Claims>
  close(): void
}
