/**
 * Ours, as it ships: the gateway over HTTP with its store on disk (`synchronous=FULL`), or as one of a fleet over
 * PostgreSQL and Redis, and the sandbox as provider, which delivers at once. Tenants have no rate, so that the limits of
 * people are what is measured.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { collectEarlier } from '../../packages/gateway/src/cli/start-memory.ts'
import { loadConfig } from '../../packages/gateway/src/config/load.ts'
import { createGateway } from '../../packages/gateway/src/gateway.ts'
import type { Draft } from '../../packages/gateway/src/model.ts'
import type { Contestant, Opening } from '../host.ts'
import { content, dataOf, scattered } from '../message.ts'

export interface GatewayOptions {
  /**
   * `wide`: three windows a person (day, week, month) that admit nearly everything, as the stack beside it has them;
   * `default`: the policy that ships; `digest`: comments are collected for 20 s.
   */
  readonly policy: 'wide' | 'default' | 'digest'
  /**
   * The question `observe` turns metrics and lines of the log on and off; the log has its level as it ships.
   * @defaultValue on for good, with errors alone in the log
   */
  readonly observable?: boolean
  /** Where the store lies, and stays. @defaultValue a folder of its own, gone at the end */
  readonly folder?: string
  /** The addresses that all gateways of a fleet share. @defaultValue a store and state of its own */
  readonly shared?: { readonly store: string; readonly state: string }
}

const widePolicy = `version: 1
limits:
  - { name: marketing-email, for: { category: marketing, channel: email }, max: [200/day, 500/week, 1000/month], over: drop }
`

const digestPolicy = `version: 1
limits: []
digests:
  - { name: comments, for: { template: new-comment }, window: 20s, template: activity-digest }
`

export async function open({
  policy,
  observable = false,
  settled,
  shared,
  ...kept
}: GatewayOptions & Opening): Promise<Contestant> {
  const folder = kept.folder ?? mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  writeFileSync(join(folder, 'policy.yaml'), policy === 'digest' ? digestPolicy : widePolicy)
  writeFileSync(
    join(folder, 'sluice.yaml'),
    `http: { port: 0 }
${shared === undefined ? 'store: sqlite:./sluice.db' : `store: "${shared.store}"\nstate: "${shared.state}"`}
${policy === 'default' ? '' : 'policy: ./policy.yaml'}
tenants: { default: { rate: unlimited, modules: unlimited, queue: 1000000, waiting: 5000000 } }
log: { level: ${observable ? 'info' : 'error'} }
`,
  )
  collectEarlier()
  const config = loadConfig({ path: join(folder, 'sluice.yaml'), env: {}, cwd: folder })
  let isObserved = true
  const gateway = await createGateway(config, observable ? { unobserved: () => !isObserved } : {})
  gateway.ledger.subscribe(({ notification: { status, data } }) => {
    if (status === 'delivered') settled(data?.number as number)
  })
  const { url } = await gateway.start()

  async function admit({ first, count, batch, recipients, sendAt, lanes = 8 }: Admission): Promise<number> {
    const begun = performance.now()
    let next = first
    const lane = async (): Promise<void> => {
      while (next < first + count) {
        const from = next
        const to = Math.min(from + batch, first + count)
        next = to
        const drafts = Array.from({ length: to - from }, (_, i) => draftOf(from + i, recipients, sendAt))
        const caller = { tenant: `tenant-${(from / batch) % 10}`, module: 'bench' }
        await gateway.gate.admit({ caller, drafts })
      }
    }
    await Promise.all(Array.from({ length: lanes }, lane))
    return performance.now() - begun
  }

  return {
    port: Number(new URL(url).port),
    questions: {
      admit,
      counts: () => gateway.ledger.counts(),
      observe(on: boolean) {
        isObserved = on
      },
    },
    async close() {
      await gateway.stop()
      if (kept.folder === undefined) rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** The admission without HTTP. */
export interface Admission {
  readonly first: number
  readonly count: number
  readonly batch: number
  readonly recipients: number
  /** Epoch ms, or a span over which they are spread. Absent: at once. */
  readonly sendAt?: number | { readonly from: number; readonly to: number }
  /** Batches under way at once. @defaultValue 8 */
  readonly lanes?: number
}

export function draftOf(n: number, recipients: number, sendAt: Admission['sendAt']): Draft {
  const id = `user-${scattered(n, recipients)}`
  const at = typeof sendAt === 'object' ? sendAt.from + ((n * 7_919) % (sendAt.to - sendAt.from)) : sendAt
  return {
    to: { id, email: `${id}@example.com` },
    channel: 'email',
    category: 'marketing',
    priority: 'normal',
    content,
    data: dataOf(n),
    ...(at === undefined ? {} : { sendAt: at }),
  }
}
