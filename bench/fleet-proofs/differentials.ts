/**
 * The same random operations on a store or a kind of state in memory and on an engine, and every answer compared: stores on
 * PostgreSQL and SQLite; limits, throttle queues, room and requests in progress on Redis and on a cluster. Many short
 * sequences run beside each other, in a process for each core, so that the round trips of one are spent on the others.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { kinds, type Outcome, type Sequence } from './differential-kinds.ts'
import type { Proof } from './proof.ts'

/** Sequences at once in a process. */
const together = 8
const toldEvery = 10_000
/** Seeds of one run, so that the runs of neighbouring seeds share none. */
const seedsOfRun = 1_000_000
/** Behind so many differences nothing more is compared. */
const differencesMax = 20

export const differentials: Proof = {
  shows: 'the same operations on stores and on state in memory and on every engine: no difference',
  engines: ['postgres', 'redis', 'redis-cluster'],
  small: { count: 10_000 },
  full: { count: 1_000_000 },
  async run({ count, seed, progress }) {
    const compared = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, 0]))
    const differences: Outcome[] = []
    let done = 0
    let told = 0
    const sequences = sequencesOf(count, seed * seedsOfRun)

    const hear = (outcome: Outcome): void => {
      const { kind, operations, difference } = outcome
      if (difference === undefined) {
        compared[kind]! += operations
        done += operations
        if (done >= told + toldEvery || done >= count) {
          told = done
          progress(`${done} of ${count} operations, ${differences.length} differences`)
        }
        return
      }
      differences.push(outcome)
      console.error(`A difference of ${kind}, repeated by differential-worker.ts ${kind} ${outcome.seed}:`)
      console.error(difference)
    }

    await Promise.all(
      Array.from({ length: availableParallelism() }, async () => {
        const child = fork(join(import.meta.dirname, 'differential-worker.ts'), {
          execArgv: ['--conditions=sluice-source', '--disable-warning=ExperimentalWarning'],
        })
        const ended = once(child, 'exit')
        let open = 0
        const ask = (): void => {
          const next = differences.length < differencesMax ? sequences.next() : { done: true as const }
          if (next.done !== true) {
            open += 1
            child.send(next.value)
          } else if (open === 0) child.disconnect()
        }
        child.on('message', (outcome: Outcome) => {
          open -= 1
          hear(outcome)
          ask()
        })
        for (let lane = 0; lane < together; lane += 1) ask()
        await ended
      }),
    )
    const figures = { operations: done, differences: differences.length, ...compared, seed }
    return { figures, isRight: differences.length === 0 && done >= count }
  },
}

/** Gives the sequences of all kinds in turn, so that each kind is as far as the others. */
function* sequencesOf(count: number, firstSeed: number): Generator<Sequence, undefined> {
  const left = Object.entries(kinds).map(([kind, { share, perSequence }]) => ({
    kind,
    perSequence,
    every: 1 / Math.ceil((share * count) / perSequence),
    at: 0,
  }))
  for (let seed = firstSeed; ; seed += 1) {
    const next = left.reduce((a, b) => (a.at <= b.at ? a : b))
    if (next.at >= 1 - next.every / 2) return
    next.at += next.every
    yield { kind: next.kind, seed, operations: next.perSequence }
  }
}
