/** The flows that are met at every await in any case: a closing by a join and by an end. */
import { flows } from './flows.ts'
import { meetFlows } from './meet-flows.ts'

meetFlows(
  flows.filter(({ wholly }) => wholly !== undefined),
  1,
)
