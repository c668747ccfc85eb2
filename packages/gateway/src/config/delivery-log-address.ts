/** Reads the address of the delivery log: nodes of a Cassandra cluster, a keyspace, its credentials and TLS. */
import type { CassandraConfig } from './config.ts'
import { loginHint } from './login.ts'

const expected =
  'expected store, or cassandra://user:password@host1,host2:9042/keyspace?dc=datacenter1 with a keyspace of lower-case letters, digits and _'
const options = ['dc', 'tls', 'ca', 'cert', 'key', 'replication'] as const
const usualPort = 9_042
const replicationMax = 10

/**
 * @param readText reads a file of a certificate or key
 * @throws Error with a sentence that says what is expected
 */
export function readDeliveryLogAddress(text: string, readText: (path: string) => string): CassandraConfig {
  const match = /^cassandra:\/\/(?:([^@/?]*)@)?([^@/?#]+)\/([a-z][a-z0-9_]{0,47})(?:\?([^#]*))?$/.exec(text)
  if (match === null) throw new Error(`${expected}${loginHint(text)}`)
  const [, login = '', hosts = '', keyspace = '', query = ''] = match
  const nodes = hosts.split(',').map(readNode)
  const [user, password] = readLogin(login)
  const parameters = new URLSearchParams(query)
  const unknown = [...parameters.keys()].find((name) => !(options as readonly string[]).includes(name))
  if (unknown !== undefined) throw new Error(`"${unknown}" is not known; expected ${options.join(', ')}`)
  const encrypts = parameters.get('tls')
  if (encrypts !== null && encrypts !== 'true' && encrypts !== 'false')
    throw new Error('expected tls=true or tls=false')
  const file = (name: 'ca' | 'cert' | 'key') => {
    const path = parameters.get(name)
    if (path === null) return {}
    if (encrypts !== 'true') throw new Error(`expected tls=true: "${name}" has a meaning with TLS only`)
    return { [name]: readText(path) }
  }
  const tls = { ...file('ca'), ...file('cert'), ...file('key') }
  const dataCentre = parameters.get('dc')
  const replication = readReplication(parameters.get('replication'))
  return {
    kind: 'cassandra',
    nodes,
    keyspace,
    ...(dataCentre === null || dataCentre === '' ? {} : { dataCentre }),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ...(encrypts === 'true' ? { tls } : {}),
    ...(replication === undefined ? {} : { replication }),
    shown: `cassandra://${user === undefined ? '' : `${encodeURIComponent(user)}@`}${nodes.join(',')}/${keyspace}`,
  }
}

function readNode(written: string): string {
  const match = /^(\[[\da-fA-F:]+\]|[^\s:[\]]+)(?::(\d{1,5}))?$/.exec(written)
  if (match === null || Number(match[2] ?? usualPort) > 65_535) throw new Error(expected)
  return `${match[1]}:${match[2] ?? usualPort}`
}

/** `user:password`; both or none. */
function readLogin(written: string): readonly [user?: string, password?: string] {
  if (written === '') return []
  const colon = written.indexOf(':')
  if (colon < 1 || colon === written.length - 1) throw new Error('expected user:password before the @')
  try {
    return [decodeURIComponent(written.slice(0, colon)), decodeURIComponent(written.slice(colon + 1))]
  } catch {
    throw new Error('expected a user and a password in which every % is written %25')
  }
}

function readReplication(written: string | null): number | undefined {
  if (written === null) return undefined
  const number = /^\d{1,2}$/.test(written) ? Number(written) : 0
  if (number < 1 || number > replicationMax)
    throw new Error(`expected a replication from 1 to ${replicationMax}`)
  return number
}
