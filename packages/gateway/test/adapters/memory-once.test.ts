import { createMemoryOnce } from '../../src/adapters/state/memory-once.ts'
import { exerciseOnce } from '../../src/conformance/once.ts'

exerciseOnce('requests in progress in memory', createMemoryOnce)
