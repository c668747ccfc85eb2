/** The room of tenants in Redis answers as that in memory does. */
import { exerciseDifference } from './differential.ts'

exerciseDifference('answers as the room in memory, whatever is asked', 500, 'room')
