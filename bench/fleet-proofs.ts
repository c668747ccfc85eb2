/**
 * The proofs of a fleet that take too long for the test run: gateways as processes over PostgreSQL and Redis, under kills,
 * pauses, crashes, losses and load. Each prints one line of JSON, and the exit code is 1 where it found something. The
 * engines come from `npm run check:fleet`, or by hand:
 *
 *     npm run check:fleet -- --only opt-outs --scale full
 *     npm run services -- run postgres redis -- node --conditions=sluice-source bench/fleet-proofs.ts opt-outs --count 2000
 */
import { loadavg } from 'node:os'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { dropSchemas } from '../packages/gateway/test/store/postgres/database.ts'
import type { Numbers } from './fleet-proofs/proof.ts'
import { proofs } from './fleet-proofs/proofs.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    scale: { type: 'string', default: 'full' },
    count: { type: 'string' },
    seconds: { type: 'string' },
    clients: { type: 'string' },
    times: { type: 'string' },
    processes: { type: 'string' },
    seed: { type: 'string' },
  },
})
const usual: Numbers = { count: 1_000, seconds: 60, clients: 48, times: 1, processes: 2, seed: 1 }
const [name = ''] = positionals
const proof = proofs[name]
if (proof === undefined) throw new Error(`expected one of ${Object.keys(proofs).join(', ')}`)
if (values.scale !== 'small' && values.scale !== 'full') throw new Error('expected --scale small or full')
const { scale, ...given } = values
const asked = Object.fromEntries(Object.entries(given).map(([key, text]) => [key, Number(text)]))
const ends: (() => unknown)[] = []
let toldAt = performance.now()
const startedAt = performance.now()
try {
  const { figures, isRight } = await proof.run({
    ...usual,
    ...proof[scale],
    ...asked,
    cleanup: { after: (end: unknown) => ends.push(end as () => unknown) } as Parameters<
      typeof proof.run
    >[0]['cleanup'],
    progress(text) {
      if (performance.now() - toldAt < 10_000) return
      toldAt = performance.now()
      console.error(`${name}: ${text}`)
    },
  })
  const tookS = Math.round((performance.now() - startedAt) / 1_000)
  console.log(JSON.stringify({ proof: name, ...figures, tookS, load: Math.round(loadavg()[0]!) }))
  process.exitCode = isRight ? 0 : 1
} finally {
  for (const end of ends.toReversed()) await end()
  if (process.env.SLUICE_TEST_POSTGRES !== undefined) await dropSchemas()
}
