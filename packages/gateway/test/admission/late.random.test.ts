/** Tests what becomes late while a gateway runs, with the limiter's state in memory (late-runs.ts). */
import process from 'node:process'
import { test } from 'node:test'
import { testSeed } from '../harness.ts'
import { runLate } from './late-runs.ts'

const runs = Number(process.env.SLUICE_RUNS ?? 10)

test(`what becomes late while a gateway runs leaves in the order of its promises, none later than it must, in ${runs} random runs (seed ${testSeed})`, () =>
  runLate(runs))
