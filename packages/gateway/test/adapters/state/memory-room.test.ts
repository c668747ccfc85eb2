import { createMemoryRoom } from '../../../src/adapters/state/memory-room.ts'
import { exerciseRoom } from '../../../src/conformance/room.ts'

exerciseRoom('Room in memory', createMemoryRoom)
