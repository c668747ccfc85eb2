/** How the log of a configuration names a recipient, for whoever looks for the lines of one. */
import { keptKey } from '../adapters/key-file.ts'
import type { LogConfig } from '../config/config.ts'
import { recipientHash } from '../observability/masking.ts'

/** Returns the hash of a recipient; the key is made where there is none yet. */
export const hashRecipient = ({ keyFile }: LogConfig, tenant: string, recipient: string): string =>
  recipientHash(keptKey(keyFile), tenant, recipient)
