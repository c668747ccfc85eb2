/** Looks at RabbitMQ without changing anything: for `sluice check` and the start of a gateway. */
import { Connection } from 'rabbitmq-client'
import { SluiceError } from '../../errors.ts'
import { connectionOptions, type RabbitmqAddress } from './rabbitmq-client.ts'

const connectMs = 5_000

/**
 * Connects to each node until one serves, and describes it.
 * @throws SluiceError INVALID_CONFIG with the way out, where none serves
 */
export async function lookAtRabbitmq(address: RabbitmqAddress): Promise<string> {
  let last: unknown
  for (const node of address.nodes) {
    const connection = new Connection({
      ...connectionOptions({ ...address, nodes: [node] }),
      connectionTimeout: connectMs,
    })
    try {
      await new Promise<void>((resolve, reject) => {
        connection.on('error', reject)
        connection.onConnect(connectMs, true).then(resolve, reject)
      })
      return `RabbitMQ ${node}, virtual host ${address.vhost}: ${address.user} may log in`
    } catch (error) {
      last = error
    } finally {
      connection.unsafeDestroy()
    }
  }
  throw new SluiceError(
    'INVALID_CONFIG',
    `queue: ${address.shown} does not serve: ${reasonOf(last)}. Expected a reachable node, a user that may log in, and a virtual host on which it may configure, write and read notify.outgoing.*`,
    { cause: last },
  )
}

const reasonOf = (error: unknown): string => {
  const { message, code } = error as { readonly message?: string; readonly code?: string }
  return message === undefined || message === '' ? (code ?? 'no reason was given') : message
}

/** True for a broker that does not answer: it may come later. False for one that refuses the login or the virtual host. */
export function isUnreachable(error: unknown): boolean {
  const { code, message = '' } = ((error as { readonly cause?: unknown }).cause ?? {}) as {
    readonly code?: string
    readonly message?: string
  }
  return (
    code !== 'ACCESS_REFUSED' &&
    code !== 'NOT_ALLOWED' &&
    !/certificate|ACCESS_REFUSED|NOT_ALLOWED/i.test(message)
  )
}
