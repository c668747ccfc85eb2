/**
 * The cost of waiting behind a tenant's limit: bytes a waiting notification and microseconds a newcomer, behind some 50
 * and behind 10,000, in the throttle queue (throttle-queue.ts) and beside it as a reservation of its own in the
 * limiter's state, which is what the queue takes the place of. 100/min for the tenant and 50/min for each module.
 *
 *     npm run bench -- line
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createRandom } from '../packages/gateway/src/adapters/random.ts'
import { ThrottleQueue } from '../packages/gateway/src/adapters/state/throttle/throttle-queue.ts'
import { createLimits, limit, memoryStore, parseWindows } from '../packages/limits/src/index.ts'
import { median } from './figures.ts'

const waiting = 10_000
const rounds = 9
const now = Date.now()
const { id } = createRandom()
const rates = { tenant: parseWindows('100/min'), module: parseWindows('50/min'), marginMs: 20 }

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function heapBytes(): number {
  collect()
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

interface Contestant {
  /** Takes one more of a module. */
  readonly join: (module: string, id: string) => void
  readonly held: unknown
}

function inThrottleQueue(): Contestant {
  const line = new ThrottleQueue(rates)
  return { join: (module, id) => line.join(module, id, now), held: line }
}

function asReservation(): Contestant {
  const limits = createLimits({ store: memoryStore({ now: () => now }), marginMs: 20 }).sync
  const rules = (module: string) => [
    limit('tenant', '100/min', { stream: 'tenant' }),
    limit('module', '50/min', { stream: module }),
  ]
  const known = new Map<string, ReturnType<typeof rules>>()
  const join = (module: string, id: string): void => {
    const of = known.get(module) ?? rules(module)
    known.set(module, of)
    limits.reserve('tenant', of, { id, firm: true })
  }
  return { join, held: limits }
}

function measure(create: () => Contestant, modules: number) {
  const micros: number[][] = []
  const bytes: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    // Flat strings, as they come from a request: an id that was just joined from two parts would count twice.
    const ids = Array.from({ length: waiting }, () => Buffer.from(id(now)).toString('latin1'))
    const before = heapBytes()
    const { join, held } = create()
    const took: number[] = []
    for (const [index, each] of ids.entries()) {
      const begun = process.hrtime.bigint()
      join(`module-${index % modules}`, each)
      took.push(Number(process.hrtime.bigint() - begun) / 1_000)
    }
    bytes.push((heapBytes() - before) / waiting)
    micros.push(took)
    if (held === undefined || ids.length === 0) throw new Error('they are to be held until here')
  }
  const at = (from: number, to: number): string =>
    median(micros.slice(1).map((took) => median(took.slice(from, to)))).toFixed(2)
  return { bytes: median(bytes).toFixed(0), tenth: at(110, 160), last: at(waiting - 50, waiting) }
}

for (const [name, create] of [
  ['in the line', inThrottleQueue],
  ['as reservations', asReservation],
] as const) {
  for (const modules of [1, 10, 500]) {
    const { bytes, tenth, last } = measure(create, modules)
    console.log(
      `${name}, ${modules} modules: ${bytes} bytes each besides the id; a newcomer takes ${tenth} µs behind some 50, ${last} µs behind ${waiting}`,
    )
  }
}
