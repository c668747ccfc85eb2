/** Reads the intakes: topics of Kafka whose records are taken as notifications, beside HTTP. */
import { type Static, Type } from '@sinclair/typebox'
import { loginHint, readLogin } from './login.ts'
import { text } from './schema-terms.ts'
import { readTextFile, type Source } from './source.ts'

const closed = { additionalProperties: false } as const

export const intakeSchema = Type.Array(
  Type.Object(
    {
      kafka: Type.Optional(
        text('host:port,host:port or kafkas://user:password@host:port', {
          secret: true,
          description: 'The address of some brokers.',
        }),
      ),
      kafkaFile: Type.Optional(
        text('the path of a file', { description: 'A file with the address, in place of it.' }),
      ),
      topic: text('the name of a topic', {
        pattern: '^[a-zA-Z0-9._-]{1,249}$',
        description: 'Its records are notifications: JSON as of POST /notifications, with tenant and module.',
      }),
      group: Type.Optional(
        text('the name of a consumer group', {
          pattern: '^\\S{1,255}$',
          description: 'Gateways of one group share the partitions. Default sluice.',
        }),
      ),
    },
    closed,
  ),
  {
    maxItems: 16,
    expects: 'a list of at most 16 sources such as { kafka: localhost:9092, topic: notifications }',
    description: 'Topics whose records are taken as notifications. Default none.',
  },
)
type IntakeDocument = Static<typeof intakeSchema>

/** A topic of Kafka. */
export interface IntakeConfig {
  readonly topic: string
  readonly group: string
  /** Host and port of some brokers. */
  readonly brokers: readonly string[]
  /** Certificates in PEM beside the authorities of the system; absent: no TLS. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  readonly sasl?: { readonly mechanism: Mechanism; readonly user: string; readonly password: string }
  /** The address without the password. */
  readonly shown: string
}

const mechanisms = {
  plain: 'PLAIN',
  'scram-sha-256': 'SCRAM-SHA-256',
  'scram-sha-512': 'SCRAM-SHA-512',
} as const
type Mechanism = (typeof mechanisms)[keyof typeof mechanisms]

const expected = 'expected host:9092,host:9092, or kafkas://user:password@host:9093 for TLS and a user'
const options = ['ca', 'cert', 'key', 'mechanism'] as const
const usualPort = 9_092

export function readIntake(written: IntakeDocument | undefined, source: Source): readonly IntakeConfig[] {
  const topics = new Set<string>()
  return (written ?? []).flatMap(({ kafka, kafkaFile, topic, group = 'sluice' }, index): IntakeConfig[] => {
    const path = ['intake', index, 'kafka']
    const address = source.secret(path, kafka, kafkaFile)
    if (address === undefined) {
      if (kafkaFile === undefined) source.fault(path, `is missing; ${expected}`)
      return []
    }
    try {
      const read = readKafkaAddress(address, (name) => {
        const file = readTextFile(source.resolve(path, name))
        if (!file.ok) throw new Error(`${name} ${file.message}`)
        return file.text
      })
      // Its records are accepted once, so a second source of it would wait for nothing.
      const name = `${read.brokers.toSorted().join(',')} ${topic}`
      if (topics.has(name)) source.fault(['intake', index, 'topic'], 'is named twice')
      topics.add(name)
      return [{ ...read, topic, group }]
    } catch (error) {
      source.fault(path, (error as Error).message)
      return []
    }
  })
}

/**
 * @param readText reads a file of a certificate or key
 * @throws Error with a sentence that says what is expected
 */
export function readKafkaAddress(
  text: string,
  readText: (path: string) => string,
): Omit<IntakeConfig, 'topic' | 'group'> {
  const match = /^(?:(kafkas?):\/\/)?(?:([^@/?]*)@)?([^/?#@]+)\/?(?:\?([^#]*))?$/.exec(text)
  if (match === null) throw new Error(`${expected}${loginHint(text)}`)
  const [, scheme = 'kafka', login = '', hosts = '', query = ''] = match
  const brokers = hosts.split(',').map(readBroker)
  const parameters = new URLSearchParams(query)
  const unknown = [...parameters.keys()].find((name) => !(options as readonly string[]).includes(name))
  if (unknown !== undefined) throw new Error(`"${unknown}" is not known; expected ${options.join(', ')}`)
  const file = (name: 'ca' | 'cert' | 'key') => {
    const path = parameters.get(name)
    if (path === null) return {}
    if (scheme !== 'kafkas') throw new Error(`expected kafkas: "${name}" has a meaning with TLS only`)
    return { [name]: readText(path) }
  }
  const tls = { ...file('ca'), ...file('cert'), ...file('key') }
  const sasl = readSasl(login, parameters.get('mechanism'))
  const user = sasl === undefined ? '' : `${encodeURIComponent(sasl.user)}@`
  const mechanism = sasl === undefined ? '' : `?mechanism=${sasl.mechanism.toLowerCase()}`
  return {
    brokers,
    ...(scheme === 'kafkas' ? { tls } : {}),
    ...(sasl === undefined ? {} : { sasl }),
    shown: `${scheme}://${user}${brokers.join(',')}${mechanism}`,
  }
}

function readBroker(written: string): string {
  const match = /^(\[[\da-fA-F:]+\]|[^\s:[\]]+)(?::(\d{1,5}))?$/.exec(written)
  if (match === null || Number(match[2] ?? usualPort) > 65_535) throw new Error(expected)
  return `${match[1]}:${match[2] ?? usualPort}`
}

function readSasl(login: string, named: string | null): IntakeConfig['sasl'] {
  const [user, password] = readLogin(login)
  if (user === undefined || password === undefined) {
    if (login !== '' || named !== null)
      throw new Error('expected a user and a password, as in user:password@')
    return undefined
  }
  const mechanism = mechanisms[(named ?? 'plain') as keyof typeof mechanisms]
  if (mechanism === undefined) throw new Error(`expected mechanism=${Object.keys(mechanisms).join(', ')}`)
  return { mechanism, user, password }
}
