/** Looks at a topic without changing anything: `sluice check` tells what a start will find. */
import { Admin } from '@platformatic/kafka'
import { SluiceError } from '../../errors.ts'
import { type KafkaAddress, securityOf } from './address.ts'

export interface KafkaLookOptions extends KafkaAddress {
  readonly topic: string
  readonly group: string
  /** The address without its password. */
  readonly shown: string
}

const timeoutMs = 5_000

/**
 * Connects, and describes the topic and the group in a sentence.
 * @throws SluiceError INVALID_CONFIG with the way out, where nothing could be taken
 */
export async function lookAtKafka(options: KafkaLookOptions): Promise<string> {
  const { topic, group, shown, tls } = options
  const admin = new Admin({
    clientId: 'sluice-check',
    connectTimeout: timeoutMs,
    timeout: timeoutMs,
    retries: 0,
    ...securityOf(options),
  })
  try {
    const metadata = await admin.metadata({ topics: [topic] })
    const found = metadata.topics.get(topic)
    if (found === undefined) throw fault(`${shown} has no topic "${topic}"; create it there.`)
    const { partitionsCount } = found
    const members = await membersOf(admin, group)
    return [
      `Kafka at ${shown}${tls === undefined ? '' : ', TLS'}: ${metadata.brokers.size} broker${plural(metadata.brokers.size)}`,
      `the topic "${topic}" has ${partitionsCount} partition${plural(partitionsCount)}`,
      `the group "${group}" has ${members} member${plural(members)}.`,
    ].join('; ')
  } catch (error) {
    throw error instanceof SluiceError ? error : startFault(error, options)
  } finally {
    await admin.close().catch(() => undefined)
  }
}

const plural = (count: number): string => (count === 1 ? '' : 's')

/** @throws an error of the brokers; a group that nobody has joined yet has no members */
async function membersOf(admin: Admin, group: string): Promise<number> {
  try {
    return (await admin.describeGroups({ groups: [group] })).get(group)?.members.size ?? 0
  } catch (error) {
    // A broker that was just started makes its coordinator with the first group, and one that is unknown is an error.
    if (/coordinator|GROUP_ID_NOT_FOUND|group id/i.test(textOf(error))) return 0
    throw error
  }
}

const fault = (sentence: string, cause?: unknown): SluiceError =>
  new SluiceError('INVALID_CONFIG', `intake: ${sentence}`, cause === undefined ? {} : { cause })

/** The messages of an error and of those that it is made of. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const inner = [...(error instanceof AggregateError ? error.errors : []), error.cause]
  return [
    `${(error as NodeJS.ErrnoException).code ?? ''} ${error.message}`,
    ...inner.flatMap((each: unknown) => (each === undefined ? [] : [textOf(each)])),
  ].join(' ')
}

function startFault(error: unknown, { shown, topic, group, sasl, tls }: KafkaLookOptions): SluiceError {
  const text = textOf(error)
  if (/UNKNOWN_TOPIC|Unknown topic|does not host this topic/i.test(text))
    return fault(`${shown} has no topic "${topic}"; create it there.`, error)
  if (/TOPIC_AUTHORIZATION|GROUP_AUTHORIZATION|not authorized/i.test(text))
    return fault(
      `${shown} does not let this user read; it needs READ and DESCRIBE of the topic "${topic}" and READ of the group "${group}".`,
      error,
    )
  if (/PLT_KFK_AUTHENTICATION|SASL/i.test(text))
    return fault(
      `${shown} refuses the user, the password or the mechanism; correct them in the address.`,
      error,
    )
  if (/certificate|self.signed|altnames|CERT_|ERR_TLS/i.test(text))
    return fault(
      `the certificate of ${shown} is not accepted; name its authority with ?ca=<file>, or the host that stands in it.`,
      error,
    )
  if (tls !== undefined && /secure TLS|wrong version|ECONNRESET|SSL/i.test(text))
    return fault(`${shown} ended the connection; kafkas:// is for a port with TLS.`, error)
  const hint =
    sasl === undefined ? ', with kafkas:// where it wants TLS, and user:password@ where it wants a user' : ''
  return fault(
    `${shown} cannot be reached; see that Kafka runs there and that this machine may connect${hint}.`,
    error,
  )
}
