/** Traffic that a gateway decides in virtual time, and its export: the recorded side of a replay. */
import { loadConfig } from '../../src/config/load.ts'
import { createGateway, trafficOf, virtualParts } from '../../src/gateway.ts'
import { type Channel, channels, type Draft, type Priority } from '../../src/model.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import type { Policy } from '../../src/policy/policy.ts'
import type { Provider } from '../../src/ports.ts'
import { recordTraffic } from '../../src/replay/record.ts'
import { seededChance } from '../../src/simulation/chance.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

export interface RecordedOptions {
  readonly seed: number
  readonly requests: number
  readonly people: number
  readonly days: number
  readonly policy: Policy
  /** Days before the exported period that are recorded too. @defaultValue 0 */
  readonly warmUpDays?: number
  /** Days after the exported period that are recorded too. @defaultValue 0 */
  readonly daysAfter?: number
  readonly plain?: boolean
}

const start = Date.UTC(2026, 10, 9)
const dayMs = 86_400_000
const zones = ['Europe/Rome', 'America/New_York', 'Asia/Tokyo', 'UTC'] as const
const kinds: readonly (readonly [Channel, string, Priority, string?])[] = [
  ['email', 'product', 'normal'],
  ['push', 'product', 'normal'],
  ['email', 'marketing', 'low'],
  ['push', 'activity', 'normal'],
  ['push', 'activity', 'normal', 'new-comment'],
  ['sms', 'security', 'critical'],
  ['email', 'billing', 'high'],
]

export const policyOf = (document: unknown): Policy => compilePolicy(document)

/** Posts random requests over the days, and returns the lines of the export. */
export async function recordedTexts(options: RecordedOptions): Promise<readonly string[]> {
  const { seed, requests, people, days, policy, warmUpDays = 0, daysAfter = 0, plain = false } = options
  const chance = seededChance(seed)
  const clock = createVirtualClock(start)
  const parts = virtualParts(seededChance(seed + 1))
  const config = loadConfig({ env: {}, cwd: import.meta.dirname })
  const unlimited = { text: 'unlimited', windows: [] }
  const provider: Provider = {
    name: 'sandbox',
    idempotent: true,
    channels,
    send: async () => ({ outcome: 'delivered' }),
    close: async () => {},
  }
  const many = Number.MAX_SAFE_INTEGER
  const bounds = { rate: unlimited, modules: unlimited, queueMax: many, waitingMax: many, bytesMax: many }
  const gateway = await createGateway(
    {
      ...config,
      policy: { file: '', builtIn: false, compiled: policy },
      store: { kind: 'sqlite', path: ':memory:' },
      tenants: { default: { ...config.tenants.default, ...bounds }, byId: new Map() },
      log: { level: 'error' },
    },
    {
      ...parts,
      clock,
      providers: [provider],
      templates: { has: () => true, hasSubject: () => true, render: () => ({ text: '' }) },
    },
  )
  await gateway.startStages()
  const spanMs = (warmUpDays + days + daysAfter) * dayMs
  const pick = <T>(list: readonly T[]): T => list[Math.floor(chance() * list.length)]!
  const instants = Array.from({ length: requests }, () => Math.floor(chance() * spanMs)).sort((a, b) => a - b)
  const ids: string[] = []
  for (const [index, offset] of instants.entries()) {
    await clock.runUntil(start + offset)
    const [channel, category, priority, template] = pick(kinds)
    // Some people get far more than others.
    const person = Math.floor(chance() ** 2 * people)
    const draft: Draft = {
      to: {
        id: `person-${person}`,
        email: `${person}@example.com`,
        pushToken: `token-${person}`,
        phone: `+3934${person}`,
        ...(person % 5 === 0 ? {} : { timeZone: zones[person % zones.length]! }),
      },
      channel,
      category,
      priority,
      ...(template === undefined ? { content: { text: 'x' } } : { template }),
      // Some repeat what was said before.
      data: { n: chance() < 0.02 ? index - 1 : index },
      actor: `author-${person % 7}`,
      ...(chance() < 0.02 ? { sendAt: clock.now() + Math.floor(chance() * dayMs) } : {}),
      ...(chance() < 0.02 ? { expiresAt: clock.now() + 3 * dayMs } : {}),
    }
    let isOpen = true
    const admitting = gateway.gate.admit({ caller: { tenant: 'acme', module: 'shop' }, drafts: [draft] })
    void admitting.finally(() => {
      isOpen = false
    })
    while (isOpen) await clock.settle()
    const [result] = await admitting
    ids.push(result!.notification.id)
    // Some are cancelled while they wait.
    if (chance() < 0.005) {
      const cancelling = gateway.gate.cancel('acme', pick(ids)).catch(() => undefined)
      await clock.settle()
      await cancelling
    }
  }
  const from = start + warmUpDays * dayMs
  const to = from + days * dayMs
  await clock.runUntil(start + spanMs)
  const lines: string[] = []
  const pages = recordTraffic({
    source: trafficOf(gateway.store),
    from,
    to,
    now: clock.now(),
    ...(plain ? {} : { key: Buffer.alloc(32, seed) }),
    sampleKey: Buffer.alloc(32, 1),
    policy,
    selfAddressed: new Set(),
  })
  for await (const page of pages) lines.push(...page.map((line) => JSON.stringify(line)))
  const stopping = gateway.stop()
  await clock.settle()
  await stopping
  return lines
}
