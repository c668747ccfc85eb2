/** Requests in progress in Redis are known as those in memory are. */
import { exerciseDifference } from './differential.ts'

exerciseDifference('answers as the requests in memory, whatever is asked', 500, 'once')
