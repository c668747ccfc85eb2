/**
 * A queue alone as a contestant: its messages are added in the process that works them off, without HTTP, as many at once
 * as the load generator has connections.
 */
import type { Load, Loaded } from './load.ts'
import { content, dataOf, scattered } from './message.ts'

/** A queue: it takes one message, or many in one call. */
export interface Adding {
  readonly one: (message: object) => Promise<unknown>
  readonly many: (messages: readonly object[]) => Promise<unknown>
}

const recipients = 10_000
const now = (): number => Number(process.hrtime.bigint()) / 1e6

function messageOf(n: number): object {
  const id = `user-${scattered(n, recipients)}`
  return {
    id: crypto.randomUUID(),
    tenant: `tenant-${n % 10}`,
    recipient: { id, email: `${id}@example.com` },
    channel: 'email',
    category: 'marketing',
    priority: 'normal',
    content,
    data: dataOf(n),
  }
}

/** The question `run`, which takes and answers what the load generator does. */
export function adding({ one, many }: Adding) {
  async function run({
    first,
    total,
    batch = 1,
    connections,
  }: Pick<Load, 'first' | 'total' | 'batch' | 'connections'>): Promise<Loaded> {
    const sent = new Float64Array(total)
    const acknowledged = new Float64Array(total)
    const messages = Array.from({ length: total }, (_, n) => messageOf(first + n))
    let next = 0
    const lane = async (): Promise<void> => {
      while (next < total) {
        const from = next
        next = Math.min(from + batch, total)
        const to = next
        sent.fill(now(), from, to)
        await (batch === 1 ? one(messages[from]!) : many(messages.slice(from, to)))
        acknowledged.fill(now(), from, to)
      }
    }
    await Promise.all(Array.from({ length: connections }, lane))
    return { sent, acknowledged, statuses: { 202: total } }
  }
  return { run }
}
