/** How the log of a configuration names a recipient, for whoever looks for the lines of one. */
import type { Config } from '../config/config.ts'
import { recipientHash } from '../observability/masking.ts'
import { secretKeysOf } from './secret-keys.ts'

/** Returns the hash of a recipient; the key is made where there is none yet. */
export const hashRecipient = async (config: Config, tenant: string, recipient: string): Promise<string> =>
  recipientHash((await secretKeysOf(config))('log'), tenant, recipient)
