/** Keys of the index of what was sent: keyed hashes, so that the record holds no address a second time. */
import { keyedHash } from '../keyed-hash.ts'
import type { Channel } from '../model.ts'

export interface SentKeys {
  /** The key of a provider's id of a message. */
  ofMessage(providerMessageId: string): string
  /** The key of an address that an account sent to. */
  ofAddress(channel: Channel, account: string, address: string): string
}

/** Feedback finds what was sent this long before it, ms. */
export const sentForMs = 31 * 86_400_000

/** @param secret gives the key of the hashes, when the first of them is made */
export function createSentKeys(secret: () => Buffer): SentKeys {
  let code: ReturnType<typeof keyedHash> | undefined
  function hashOf(parts: readonly string[]): string {
    code ??= keyedHash(secret())
    return code(JSON.stringify(parts)).toString('base64url').slice(0, 22)
  }
  return {
    ofMessage: (id) => hashOf(['message', id]),
    ofAddress: (channel, account, address) => hashOf(['address', channel, account, address]),
  }
}
