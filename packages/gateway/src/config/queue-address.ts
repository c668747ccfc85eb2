/** Reads the address of the queue: the nodes of a RabbitMQ, its credentials, virtual host and TLS. */
import type { RabbitmqConfig } from './config.ts'
import { loginHint, readLogin } from './login.ts'

const expected = 'expected embedded, or amqp://user:password@host1,host2:5672/vhost'
const options = ['ca', 'cert', 'key'] as const
const usualPort = { amqp: 5_672, amqps: 5_671 }

/**
 * @param readText reads a file of a certificate or key
 * @throws Error with a sentence that says what is expected
 */
export function readQueueAddress(text: string, readText: (path: string) => string): RabbitmqConfig {
  const match = /^(amqps?):\/\/(?:([^@/?]*)@)?([^@/?#]+)(?:\/([^/?#]*))?(?:\?([^#]*))?$/.exec(text)
  if (match === null) throw new Error(`${expected}${loginHint(text)}`)
  const [, scheme = 'amqp', login = '', hosts = '', path = '', query = ''] = match
  const isEncrypted = scheme === 'amqps'
  const nodes = hosts.split(',').map((host) => readNode(host, usualPort[isEncrypted ? 'amqps' : 'amqp']))
  const [user = 'guest', password = 'guest'] = readLogin(login)
  const parameters = new URLSearchParams(query)
  const unknown = [...parameters.keys()].find((name) => !(options as readonly string[]).includes(name))
  if (unknown !== undefined) throw new Error(`"${unknown}" is not known; expected ${options.join(', ')}`)
  const file = (name: 'ca' | 'cert' | 'key') => {
    const named = parameters.get(name)
    if (named === null) return {}
    if (!isEncrypted) throw new Error(`expected amqps: "${name}" has a meaning with TLS only`)
    return { [name]: readText(named) }
  }
  const tls = { ...file('ca'), ...file('cert'), ...file('key') }
  return {
    kind: 'amqp',
    nodes,
    user,
    password,
    vhost: readVhost(path),
    ...(isEncrypted ? { tls } : {}),
    shown: `${scheme}://${encodeURIComponent(user)}@${nodes.join(',')}/${path}`,
  }
}

function readNode(written: string, port: number): string {
  const match = /^(\[[\da-fA-F:]+\]|[^\s:[\]]+)(?::(\d{1,5}))?$/.exec(written)
  if (match === null || Number(match[2] ?? port) > 65_535) throw new Error(expected)
  return `${match[1]}:${match[2] ?? port}`
}

/** Reads the virtual host; an address without one means RabbitMQ's own, which is called `/`. */
function readVhost(path: string): string {
  try {
    return path === '' ? '/' : decodeURIComponent(path)
  } catch {
    throw new Error('expected a virtual host in which every % is written %25 and every / %2F')
  }
}
