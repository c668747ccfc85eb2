/** The proofs of a fleet by their names, in the order in which they are run. */
import { clock } from './clock.ts'
import { crashes } from './crashes.ts'
import { differentials } from './differentials.ts'
import { failOver } from './fail-over.ts'
import { flush } from './flush.ts'
import { kills } from './kills.ts'
import { lostAnswers } from './lost-answers.ts'
import { optOuts } from './opt-outs.ts'
import { pauses } from './pauses.ts'
import type { Proof } from './proof.ts'
import { queueBound } from './queue-bound.ts'
import { redisAway } from './redis-away.ts'

export const proofs: Readonly<Record<string, Proof>> = {
  differentials,
  kills,
  pauses,
  crashes,
  'opt-outs': optOuts,
  'queue-bound': queueBound,
  'flush-four': flush,
  'redis-away-load': redisAway,
  'fail-over-cluster': failOver,
  'lost-answers': lostAnswers,
  clock,
}
