/** The rules of the exactness test's processes: windows short enough to fill and empty many times. */
import { limit } from '../../src/index.ts'

export const takerRules = [
  limit('some', '8/40ms', { stream: 'a' }),
  limit('many', '30/200ms', { stream: 'b' }),
  limit('gap', [], { stream: 'a', minGap: '2ms' }),
]
