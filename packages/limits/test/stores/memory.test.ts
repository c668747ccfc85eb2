import { exerciseStore } from '../../src/conformance/index.ts'
import { memoryStore } from '../../src/stores/memory.ts'

exerciseStore((world) => ({ store: memoryStore(world) }), { name: 'memory', operations: 100_000 })
