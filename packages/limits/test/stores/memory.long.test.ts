/** The store in memory against the model, in ten times the random operations of its everyday test. */
import { exerciseStore } from '@sluice/limits-conformance'
import { memoryStore } from '../../src/index.ts'

exerciseStore((world) => ({ store: memoryStore(world) }), { name: 'memory', operations: 100_000 })
