/**
 * Runs sequences of random operations for the proof `differentials`, several at once, in a process of its own: each is
 * compared with the model in memory. By hand it runs one sequence alone, and shows its difference:
 *
 *     npm run services -- run redis -- node --conditions=sluice-source bench/fleet-proofs/differential-worker.ts throttle-redis 17
 */
import process from 'node:process'
import { SluiceError } from '../../packages/gateway/src/errors.ts'
import type { Engine } from '../../packages/gateway/test/adapters/state/redis/open.ts'
import { openWorlds } from '../../packages/gateway/test/adapters/state/redis/worlds.ts'
import { type FleetLane, fleetLane } from '../../packages/gateway/test/store/differential/fleet-lane.ts'
import { compareFleets } from '../../packages/gateway/test/store/differential/fleet-sequence.ts'
import { type Lane, postgresLane, sqliteLane } from '../../packages/gateway/test/store/differential/lanes.ts'
import { compareStores } from '../../packages/gateway/test/store/differential/sequence.ts'
import { dropSchemas } from '../../packages/gateway/test/store/postgres/database.ts'
import { kinds, type Outcome, type Sequence } from './differential-kinds.ts'

const worlds = new Map<Engine, ReturnType<typeof openWorlds>>()
/** Schemas and databases that no sequence uses at the moment. */
const free = { postgres: [] as Lane[], sqlite: [] as Lane[], fleets: [] as FleetLane[] }
let lanes = 0
const triesMax = 5

/** Runs a sequence. On a busy machine an engine may miss a deadline, which is no difference: then it runs anew. */
async function run(sequence: Sequence): Promise<number> {
  for (let tries = 1; ; tries += 1)
    try {
      return await runOnce(sequence)
    } catch (error) {
      if (!isAway(error) || tries === triesMax) throw error
    }
}

const isAway = (error: unknown): boolean =>
  error instanceof SluiceError && ['STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'].includes(error.code)

async function runOnce(sequence: Sequence): Promise<number> {
  const { seed, operations } = sequence
  const { state, engine } = kinds[sequence.kind]!
  if (state === 'fleet') return runFleets(sequence)
  if (state !== 'store') return (await worldsOf(engine)).compare(state, seed, operations)
  const lane = free[engine].pop() ?? newLane(engine)
  try {
    const stores = await lane.open()
    try {
      await compareStores({ seed, steps: operations, ...stores })
    } finally {
      await stores.engine.close()
    }
  } finally {
    free[engine].push(lane)
  }
  return operations
}

async function runFleets({ seed, operations }: Sequence): Promise<number> {
  const lane = free.fleets.pop() ?? fleetLane(newName())
  try {
    const pair = await lane.open()
    try {
      await compareFleets({ seed, steps: operations, pair })
    } finally {
      await pair.close()
    }
  } finally {
    free.fleets.push(lane)
  }
  return operations
}

function newName(): string {
  lanes += 1
  return `difference_${process.pid}_${lanes}`
}

function newLane(engine: 'postgres' | 'sqlite'): Lane {
  return engine === 'sqlite' ? sqliteLane('') : postgresLane(newName())
}

function worldsOf(engine: Engine): ReturnType<typeof openWorlds> {
  const known = worlds.get(engine) ?? openWorlds(engine, `differential:${process.pid}:`)
  worlds.set(engine, known)
  return known
}

async function close(): Promise<void> {
  for (const each of worlds.values()) (await each).close()
  if (free.postgres.length + free.fleets.length > 0) await dropSchemas()
}

if (process.send === undefined) {
  const [kind = '', seed] = process.argv.slice(2)
  if (!(kind in kinds)) throw new Error(`expected one of ${Object.keys(kinds).join(', ')}`)
  try {
    const count = await run({ kind, seed: Number(seed), operations: kinds[kind]!.perSequence })
    console.log(`${count} operations of ${kind} with seed ${seed}: no difference`)
  } finally {
    await close()
  }
} else {
  process.on('message', async (sequence: Sequence) => {
    let outcome: Outcome
    try {
      outcome = { ...sequence, operations: await run(sequence) }
    } catch (error) {
      outcome = { ...sequence, difference: error instanceof Error ? error.stack! : String(error) }
    }
    process.send!(outcome)
  })
  process.on('disconnect', async () => {
    await close()
    process.exit()
  })
}
