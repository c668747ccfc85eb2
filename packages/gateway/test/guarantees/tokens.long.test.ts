/** Every route against every token that must not open it, for each algorithm; tokens.test.ts has the pairs of one algorithm. */
import { meetBadTokens } from './bad-tokens.ts'

meetBadTokens(1)
