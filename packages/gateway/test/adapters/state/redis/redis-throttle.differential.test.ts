/** Throttle queues in Redis answer as those in memory do. */
import { exerciseDifference } from './differential.ts'

exerciseDifference('answers as the queues in memory, whatever is asked', 1_000, 'throttle')
