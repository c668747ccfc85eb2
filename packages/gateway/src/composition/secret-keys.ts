/**
 * Composes the secret keys of the gateway: files of this machine, or the table of a server, where all processes read the
 * same. One of them hashes the recipients that the log names.
 */
import { keptKey, readKey } from '../adapters/key-file.ts'
import type { Config } from '../config/config.ts'
import { recipientHash } from '../observability/masking.ts'

const keyNames = ['unsubscribe', 'log'] as const
type KeyName = (typeof keyNames)[number]

/** Returns the key of a name; a file is made when its key is first needed. */
export type SecretKeys = (name: KeyName) => Buffer

type KeyConfig = Pick<Config, 'store' | 'unsubscribe' | 'log'>

/**
 * Reads the keys of a server, which is connected to for it; files are read when their key is needed. A key file of a
 * version that kept it on this machine becomes the key of all processes.
 * @throws SluiceError INVALID_CONFIG where the server does not serve
 */
export async function secretKeysOf({ store, unsubscribe, log }: KeyConfig): Promise<SecretKeys> {
  const files = { unsubscribe: unsubscribe.keyFile, log: log.keyFile }
  if (store.postgres === undefined) return (name) => keptKey(files[name])
  const { readSecrets } = await import('../store/postgres/secrets.ts')
  const own = keyNames.map((name) => [name, readKey(files[name])] as const)
  const keys = await readSecrets(store.postgres, own)
  return (name) => keys.get(name)!
}

/**
 * Returns the hash under which the log of a configuration names a recipient, for whoever looks for the lines of one. The
 * key is made where there is none yet.
 */
export const hashRecipient = async (config: Config, tenant: string, recipient: string): Promise<string> =>
  recipientHash((await secretKeysOf(config))('log'), tenant, recipient)
