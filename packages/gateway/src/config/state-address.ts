/**
 * Reads the address of the limiter state: one Redis, or the nodes of a Redis Cluster, its credentials, TLS, and what keeps
 * several installations apart.
 */
import { formatDuration } from '@sluice/limits'
import { defaultSlotMs } from '../ports/account-slots.ts'
import type { RedisStateConfig } from './config.ts'
import { loginHint, readLogin } from './login.ts'
import { readDuration } from './quantity.ts'

const expected = 'expected memory, redis://user:password@host:6379/0 or redis-cluster://host1:6379,host2:6379'
const options = ['ca', 'cert', 'key', 'prefix', 'deadline', 'slot'] as const
const usualPort = 6_379
const databaseMax = 15
/** Above this a request would wait for Redis longer than for its store. */
const deadlineMsMax = 2_000
/** A wider slot leaves more than a sixth of a rate per second unused. */
const slotMsMax = 200

/**
 * @param readText reads a file of a certificate or key
 * @throws Error with a sentence that says what is expected
 */
export function readStateAddress(text: string, readText: (path: string) => string): RedisStateConfig {
  const match =
    /^(rediss?|rediss?-cluster):\/\/(?:([^@/?]*)@)?([^@/?#]+)(?:\/([^@?#]*))?(?:\?([^#]*))?$/.exec(text)
  if (match === null) throw new Error(`${expected}${loginHint(text)}`)
  const [, scheme = '', login = '', hosts = '', database = '', query = ''] = match
  const isCluster = scheme.endsWith('-cluster')
  const isEncrypted = scheme.startsWith('rediss')
  const nodes = hosts.split(',').map(readNode)
  if (!isCluster && nodes.length > 1)
    throw new Error('expected one host; the nodes of a Redis Cluster are written redis-cluster://host1,host2')
  if (database !== '' && (isCluster || !/^\d+$/.test(database) || Number(database) > databaseMax))
    throw new Error(
      isCluster
        ? 'expected no database: a Redis Cluster has only one'
        : `expected a database from 0 to ${databaseMax}`,
    )
  const [user, password] = readLogin(login)
  const parameters = new URLSearchParams(query)
  const unknown = [...parameters.keys()].find((name) => !(options as readonly string[]).includes(name))
  if (unknown !== undefined) throw new Error(`"${unknown}" is not known; expected ${options.join(', ')}`)
  const file = (name: 'ca' | 'cert' | 'key') => {
    const path = parameters.get(name)
    if (path === null) return {}
    if (!isEncrypted) throw new Error(`expected rediss: "${name}" has a meaning with TLS only`)
    return { [name]: readText(path) }
  }
  const tls = { ...file('ca'), ...file('cert'), ...file('key') }
  const prefix = parameters.get('prefix') ?? 'sl:'
  if (!/^[\w.:/-]{1,64}$/.test(prefix))
    throw new Error('expected a prefix of at most 64 letters, digits and _ . : / -')
  const path = isCluster || database === '' ? '' : `/${database}`
  return {
    kind: 'redis',
    url: `${scheme}://${login === '' ? '' : `${login}@`}${nodes.join(',')}${path}`,
    ...(isEncrypted ? { tls } : {}),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    nodes,
    isCluster,
    prefix,
    deadlineMs: readWithin(parameters, 'deadline', { least: 1, usual: 50, most: deadlineMsMax }),
    slotMs: readWithin(parameters, 'slot', { least: defaultSlotMs, usual: defaultSlotMs, most: slotMsMax }),
    shown: `${scheme}://${user === undefined ? '' : `${encodeURIComponent(user)}@`}${nodes.join(',')}${path}`,
  }
}

function readNode(written: string): string {
  const match = /^(\[[\da-fA-F:]+\]|[^\s:[\]]+)(?::(\d{1,5}))?$/.exec(written)
  if (match === null || Number(match[2] ?? usualPort) > 65_535) throw new Error(expected)
  return `${match[1]}:${match[2] ?? usualPort}`
}

/** Reads a duration of the query between two bounds, ms. */
function readWithin(
  parameters: URLSearchParams,
  name: 'deadline' | 'slot',
  { least, usual, most }: { readonly least: number; readonly usual: number; readonly most: number },
): number {
  const written = parameters.get(name)
  if (written === null) return usual
  let read: number
  try {
    read = readDuration(written)
  } catch {
    throw new Error(`expected a ${name} such as ${usual}ms`)
  }
  if (read < least || read > most)
    throw new Error(`expected a ${name} from ${formatDuration(least)} to ${formatDuration(most)}`)
  return read
}
