/** The tests run what the suites of express-rate-limit check, on real Express apps and a virtual clock. */
import { after, describe } from 'node:test'
import { expressRateLimit as suite } from './express-rate-limit.ts'
import { expressWorlds } from './express-world.ts'
import { exercise, tally } from './peer.ts'

tally(suite)

describe('express-rate-limit', () => {
  const { open, close } = expressWorlds()
  after(close)
  exercise(suite.cases, open)
})
