/** Answers and refusals of a Redis server, as the questions of the state read them. */
import { SluiceError } from '../../../errors.ts'

/** Texts come as bytes where the script asks for that. */
export type Reply = string | number | null | Buffer | readonly Reply[]

/** Slots of a cluster, as `CLUSTER SLOTS` answers them; replicas stand behind the master. */
export type SlotRange = readonly [
  from: number,
  to: number,
  master: readonly [host: string | null, port: number],
]

/**
 * Returns the address of a node as a cluster names it by host and port: without a host it means the one that was asked, and an
 * address of IPv6 stands in brackets.
 */
export function nodeAt(host: string | null, port: number | string, asked: string): string {
  if (host === null || host === '') return `${asked.slice(0, asked.lastIndexOf(':'))}:${port}`
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** An answer that another server of the cluster has: `MOVED` or `ASK`, with its address. */
export class Redirection extends Error {
  readonly node: string
  readonly slot: number
  readonly isAsk: boolean
  constructor(message: string, asked: string) {
    super(message)
    const [kind, slot, node = ''] = message.split(' ')
    const at = node.lastIndexOf(':')
    this.node = nodeAt(node.slice(0, at), node.slice(at + 1), asked)
    this.slot = Number(slot)
    this.isAsk = kind === 'ASK'
  }
}

/** The value of a field of `INFO`. */
export function fieldOf(info: string, field: string): string {
  return new RegExp(`^${field}:(.*?)\r?$`, 'm').exec(info)?.[1] ?? ''
}

/** True if the script found the server's clock wrong, or the caller gone, and did nothing. */
export const isClock = (value: Reply): boolean =>
  value === 'clock' || (value instanceof Buffer && value.toString() === 'clock')

export const isUnknownScript = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith('NOSCRIPT')

/** @param asked the node that answered */
export function redirectionOf(error: unknown, asked: string): Redirection | undefined {
  const message = error instanceof Error ? error.message : ''
  return /^(MOVED|ASK) /.test(message) ? new Redirection(message, asked) : undefined
}

/**
 * True if a question was not worked because its slot is on its way to another node: its keys are where neither node may
 * answer for all of them.
 */
export function isMoving(error: unknown): boolean {
  if (error instanceof Redirection) return error.isAsk
  return (
    error instanceof SluiceError &&
    error.cause instanceof Error &&
    error.cause.message.startsWith('TRYAGAIN ')
  )
}

export function unavailable(node: string, cause: unknown): SluiceError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new SluiceError('STATE_UNAVAILABLE', `Redis at ${node} could not be asked: ${reason}`, {
    retryAfterMs: 1_000,
    cause,
  })
}
