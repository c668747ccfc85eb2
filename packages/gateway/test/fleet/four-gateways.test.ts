/** Four gateways at once, as two in two-gateways.test.ts. `npm run check:fleet -- --gateways 4 --seeds 1000` runs more. */
import { exerciseRepetition, exerciseSeeds } from './seeds.ts'

exerciseSeeds(4, 1, 10)
// Two of the four have different numbers for one server: none had a token while none looked for a newer number.
exerciseSeeds(4, 1422, 1)
exerciseRepetition(4)
