/** Further seeds of one gateway, beside those of fleet.test.ts. */
import { exerciseSeeds } from './seeds.ts'

exerciseSeeds(1, 91, 90)
