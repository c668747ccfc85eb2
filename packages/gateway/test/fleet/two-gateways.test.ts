/**
 * Two gateways at once in the fleet simulator: losses of the limits and of the record, pauses until a gateway is declared
 * dead, kills, delays and lost answers. `npm run check:fleet -- --gateways 2 --seeds 1000` runs more.
 */
import { exerciseSeeds } from './seeds.ts'

exerciseSeeds(2, 1, 10)
