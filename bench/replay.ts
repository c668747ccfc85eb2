/**
 * The speed and the fidelity of a replay: records requests with the real gateway in virtual time, exports them, and
 * replays them under the policy that was in force and under one that halves marketing.
 *
 *   node --conditions=sluice-source bench/replay.ts [requests] [days]
 *
 * It prints the share of equal decisions with the explanation of each difference, and the time that each replay took.
 */
import { loadPolicy } from '../packages/gateway/src/config/policy-file.ts'
import { compareReplays } from '../packages/gateway/src/replay/compare.ts'
import { replay } from '../packages/gateway/src/replay/run.ts'
import { fidelityText, summaryOf } from '../packages/gateway/src/replay/text.ts'
import { readTraffic } from '../packages/gateway/src/replay/traffic.ts'
import { policyOf, recordedTexts } from '../packages/gateway/test/replay/recorded.ts'

const [requests = 100_000, days = 7] = process.argv.slice(2).map(Number)
const policy = loadPolicy({ cwd: '/' }).compiled
const document = structuredClone(policy.document) as { limits: { name: string; max: unknown }[] }
for (const limit of document.limits) if (limit.name === 'marketing-email') limit.max = ['1/day', '3/week']
const next = policyOf(document)

async function timed<T>(name: string, work: () => Promise<T>): Promise<T> {
  const [begunAt, before] = [performance.now(), process.cpuUsage()]
  const result = await work()
  const { user, system } = process.cpuUsage(before)
  const seconds = ((performance.now() - begunAt) / 1_000).toFixed(1)
  console.log(`${name}: ${seconds} s, ${((user + system) / 1e6).toFixed(1)} s of CPU`)
  return result
}

const texts = await timed(`${requests.toLocaleString('en')} requests recorded`, () =>
  recordedTexts({ seed: 1, requests, people: Math.ceil(requests / 20), days, policy }),
)
const traffic = await timed('read', () => readTraffic(texts))
const a = await timed('replayed under the policy in force', () => replay({ traffic, policy }))
const b = await timed('replayed under the new policy', () => replay({ traffic, policy: next }))
const comparison = await timed('compared', async () =>
  compareReplays({
    traffic,
    a: { name: 'in force', policy, replayed: a },
    b: { name: 'new', policy: next, replayed: b },
  }),
)
console.log(fidelityText(comparison))
for (const { id, why, happened, replayed } of comparison.fidelity.examples)
  console.log(`  ${why} ${id}: ${happened}; replayed ${replayed}`)
console.log(summaryOf(comparison))
console.log(`memory: ${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB`)
