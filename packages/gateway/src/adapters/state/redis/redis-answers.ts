/** Answers and refusals of a Redis server, as the questions of the state read them. */
import { SluiceError } from '../../../errors.ts'

/** Texts come as bytes where the script asks for that. */
export type Reply = string | number | null | Buffer | readonly Reply[]

/** An answer that another server of the cluster has: `MOVED` or `ASK`, with its address. */
export class Redirection extends Error {
  readonly node: string
  readonly slot: number
  readonly isAsk: boolean
  constructor(message: string) {
    super(message)
    const [kind, slot, node] = message.split(' ')
    this.node = node ?? ''
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

export function redirectionOf(error: unknown): Redirection | undefined {
  const message = error instanceof Error ? error.message : ''
  return /^(MOVED|ASK) /.test(message) ? new Redirection(message) : undefined
}

export function unavailable(node: string, cause: unknown): SluiceError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new SluiceError('STATE_UNAVAILABLE', `Redis at ${node} could not be asked: ${reason}`, {
    retryAfterMs: 1_000,
    cause,
  })
}
