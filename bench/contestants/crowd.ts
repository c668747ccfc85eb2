/**
 * The gateway with a hundred tenants that come to its door by themselves: 99 at their share, and one, where it is asked
 * for, at a hundred times its share. Everything passes the gate, the store on disk, the queue and one provider account,
 * which is the narrow place. With the limits that ship, the noisy one meets its own; without any, the queue before
 * the account has to be fair. What is measured is how long the 99 wait between accepted and delivered.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../../packages/gateway/src/config/load.ts'
import { SluiceError } from '../../packages/gateway/src/errors.ts'
import { createGateway } from '../../packages/gateway/src/gateway.ts'
import type { Contestant } from '../host.ts'

export interface Crowd {
  readonly noisy: boolean
  /** True if tenants have the default limits. */
  readonly limited: boolean
  readonly seconds: number
}

export interface Waits {
  /** The latency of the 99 quiet tenants: accepted → delivered, ms. */
  readonly ms: Float64Array
  /** The number of delivered notifications of the 99. */
  readonly heard: number
  /** The number of notifications of the 99, and the fewest and most of one tenant. */
  readonly asked: number
  readonly least: number
  readonly most: number
  /** The figures of the noisy tenant. */
  readonly noisyAsked: number
  readonly noisyRefused: number
  readonly noisyDelivered: number
}

/** The first window of the account is filled before anybody has waited; waits count from here on. */
const warmUpMs = 2_000
const tenants = 99
/** The narrow place: what a hundred tenants share. */
const accountPerSecond = 200
const share = accountPerSecond / (tenants + 1)
/** Notifications a second of a normal tenant, half of its share, and of the noisy one. */
const [normalPerSecond, noisyPerSecond] = [share / 2, share * 100]

export async function open({ noisy, limited, seconds }: Crowd): Promise<Contestant> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  writeFileSync(join(folder, 'policy.yaml'), 'version: 1\nlimits: []\n')
  writeFileSync(
    join(folder, 'sluice.yaml'),
    `http: { port: 0 }
store: sqlite:./sluice.db
policy: ./policy.yaml
${limited ? '' : 'tenants: { default: { rate: unlimited, modules: unlimited } }'}
pools:
  email: { provider: sandbox, accounts: [{ id: one, rate: ${accountPerSecond}/s }] }
log: { level: error }
`,
  )
  const config = loadConfig({ path: join(folder, 'sluice.yaml'), env: {}, cwd: folder })
  const gateway = await createGateway(config)
  const acceptedAt = new Map<string, number>()
  const waits: number[] = []
  const through = new Map<string, number>()
  let delivered = 0
  let heard = 0
  let settledAt = Number.POSITIVE_INFINITY
  gateway.ledger.subscribe(({ notification: { id, tenant, status } }) => {
    if (status !== 'delivered') return
    through.set(tenant, (through.get(tenant) ?? 0) + 1)
    delivered += 1
    const from = acceptedAt.get(id)
    if (tenant === 'noisy' || from === undefined) return
    heard += 1
    if (from >= settledAt) waits.push(performance.now() - from)
  })
  const { url } = await gateway.start()
  let serial = 0

  async function post(tenant: string): Promise<boolean> {
    serial += 1
    const to = { id: `user-${serial}`, email: `user-${serial}@example.com` }
    const content = { subject: 'News', text: `Message ${serial}` }
    try {
      const [result] = await gateway.gate.admit({
        caller: { tenant, module: 'bench' },
        drafts: [{ to, channel: 'email', category: 'product', priority: 'normal', content }],
      })
      // Its delivery is on record after its acceptance, and told in another turn.
      acceptedAt.set(result!.notification.id, performance.now())
      return true
    } catch (error) {
      if (error instanceof SluiceError && error.code === 'QUEUE_FULL') return false
      throw error
    }
  }

  /** Each comes at its own instants, whatever has become of those before. */
  async function run(): Promise<Waits> {
    const begun = performance.now()
    settledAt = begun + warmUpMs
    const posts: Promise<unknown>[] = []
    const asked = { normal: 0, noisy: 0, refused: 0 }
    for (let passed = 0; passed < seconds * 1_000; passed = performance.now() - begun) {
      while (asked.normal < (passed / 1_000) * normalPerSecond * tenants)
        posts.push(post(`tenant-${asked.normal++ % tenants}`))
      while (noisy && asked.noisy < (passed / 1_000) * noisyPerSecond) {
        asked.noisy += 1
        posts.push(
          post('noisy').then((taken) => {
            if (!taken) asked.refused += 1
          }),
        )
      }
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    await Promise.all(posts)
    const end = performance.now() + 5_000
    while (heard < asked.normal && performance.now() < end)
      await new Promise((resolve) => setTimeout(resolve, 10))
    const each = Array.from({ length: tenants }, (_, index) => through.get(`tenant-${index}`) ?? 0)
    return {
      ms: Float64Array.from(waits).sort(),
      asked: asked.normal,
      heard,
      least: Math.min(...each),
      most: Math.max(...each),
      noisyAsked: asked.noisy,
      noisyRefused: asked.refused,
      noisyDelivered: delivered - each.reduce((sum, count) => sum + count, 0),
    }
  }

  return {
    port: Number(new URL(url).port),
    questions: { run },
    async close() {
      // The noisy tenant's remaining queue is not awaited.
      setTimeout(() => process.exit(), 1_000).unref()
      await gateway.stop().catch(() => undefined)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
