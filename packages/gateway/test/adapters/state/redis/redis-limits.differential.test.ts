/** The limits of recipients in Redis answer as those in memory do. */
import { exerciseDifference } from './differential.ts'

exerciseDifference('answers as the limits in memory, whatever is asked', 500, 'limits')
