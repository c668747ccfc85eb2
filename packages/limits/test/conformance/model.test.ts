/** The model must pass the suite that is measured against it. */
import { exerciseStore, modelStore } from '../../src/conformance/index.ts'

exerciseStore((world) => ({ store: modelStore(world) }), { name: 'the model', operations: 400 })
