/**
 * Every flow that reads and then commits, met at each of its calls to the store by another writer, a refused commit, a
 * store that fails, and the end of the process, and at each of its awaits by another writer and the end of the process:
 * whatever comes when, each notification comes to its end, in time. Here some of them by the seed, and of a closing a
 * join and an end at every third await; interference.long.test.ts meets a closing at every one. All of all flows, some ten
 * thousand, with SLUICE_EVERY=1, of one flow with SLUICE_FLOW=<its name>.
 */
import { flows } from './flows.ts'
import { meetFlows } from './meet-flows.ts'

meetFlows(flows, 3)
