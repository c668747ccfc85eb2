/** The model must pass the suite that is measured against it. */
import { exerciseStore, modelStore } from '@sluice/limits-conformance'

exerciseStore((world) => ({ store: modelStore(world) }), {
  name: 'the model',
  operations: 400,
  forgets: false,
})
