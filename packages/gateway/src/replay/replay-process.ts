/** The process that makes one replay: see replays.ts. It goes on after each step only when it is told. */
import { once } from 'node:events'
import { openTraffic } from '../gateway.ts'
import type { JsonObject, Recipient } from '../model.ts'
import { compilePolicy } from '../policy/compile.ts'
import type { Policy } from '../policy/policy.ts'
import type { TrafficSource } from '../ports/traffic.ts'
import { compareReplays } from './compare.ts'
import { recordTraffic } from './record.ts'
import type { ReplayStep, ReplayWork } from './replays.ts'
import { replay } from './run.ts'
import type { Traffic, TrafficHeader, TrafficLine } from './traffic.ts'

// The gateway ends, kills or forgets this process by closing the channel: nothing is left to do then.
process.on('disconnect', () => process.exit())

const [work] = (await once(process, 'message')) as [ReplayWork]

function tell(step: ReplayStep): void {
  process.send!(step)
}

/** Tells the progress, and waits until the gateway lets the replay go on: not while notifications are late. */
async function step(progress: number): Promise<void> {
  const goesOn = once(process, 'message')
  tell({ progress: Math.min(1, Math.max(0, progress)) })
  await goesOn
}

type Source = Pick<TrafficSource, 'tenants' | 'page' | 'recipients' | 'close'>

function sourceOf({ copied, config, skipsNameCheck }: ReplayWork): Source | Promise<Source> {
  if (copied === undefined) {
    const { postgres } = config
    if (postgres === undefined || postgres.ssl === false || !skipsNameCheck) return openTraffic(config)
    const ssl = { ...postgres.ssl, checkServerIdentity: () => undefined }
    return openTraffic({ ...config, postgres: { ...postgres, ssl } })
  }
  const tenants = new Map(copied.tenants)
  const recipients = new Map(
    (copied.recipients as unknown as readonly Recipient[]).map((each) => [
      `${each.tenant}\n${each.id}`,
      each,
    ]),
  )
  return {
    tenants: async () => [...tenants.keys()],
    page: async ({ tenant, from, to }) => ({
      items: (tenants.get(tenant) ?? []).filter(({ createdAt }) => from <= createdAt && createdAt < to),
      nextCursor: null,
    }),
    recipients: async (keys) =>
      keys.map(({ tenant, recipient }) => recipients.get(`${tenant}\n${recipient}`)),
    close: async () => {},
  }
}

async function readTraffic(policy: ReturnType<typeof compilePolicy>): Promise<Traffic> {
  const source = await sourceOf(work)
  try {
    const { from, to, now, tenant, sample } = work
    let header: TrafficHeader | undefined
    const lines: TrafficLine[] = []
    const pages = recordTraffic({
      source,
      from,
      to,
      now,
      ...(tenant === undefined ? {} : { tenant }),
      ...(sample === undefined ? {} : { sample }),
      sampleKey: crypto.getRandomValues(Buffer.alloc(32)),
      policy,
      selfAddressed: new Set(work.selfAddressed),
    })
    for await (const page of pages) {
      for (const each of page)
        if ('traffic' in each) header = each
        else lines.push(each)
      if (lines.length > work.linesMax)
        throw new Error(
          `There are more than ${work.linesMax.toLocaleString('en')} requests: replay a sample.`,
        )
      await step(0)
    }
    return { header: header!, lines }
  } finally {
    await source.close()
  }
}

async function run(): Promise<JsonObject> {
  const against = compilePolicy(work.against)
  const policy = compilePolicy(work.policy)
  const traffic = await readTraffic(against)
  const isSame = policy.version === against.version
  const share = isSame ? 1 : 0.5
  const a = await replay({ traffic, policy: against, onProgress: (done) => step(done * share) })
  const b = isSame ? a : await replay({ traffic, policy, onProgress: (done) => step(share + done * share) })
  const nameOf = ({ name, version }: Policy): string => name ?? version.slice(0, 8)
  return compareReplays({
    traffic,
    a: { name: `in force ${nameOf(against)}`, policy: against, replayed: a },
    b: { name: `new ${nameOf(policy)}`, policy, replayed: b },
  }) as unknown as JsonObject
}

// The process ends when the gateway has received the end and closes the channel.
try {
  tell({ result: await run() })
} catch (error) {
  tell({ failed: (error as Error).message })
}
