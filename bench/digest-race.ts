/**
 * Digests of one second under load and kills. In the end every item that was acknowledged must be on record, final, and
 * have left its digest within a second of its promise, the time apart in which no process ran; else the exit code is 1.
 * A hundred thousand items take some ten minutes; `npm test` has a thousand of them.
 *
 *     node --conditions=sluice-source bench/digest-race.ts --items 100000 --kills 12
 */
import { parseArgs } from 'node:util'
import { race } from '../packages/gateway/test/guarantees/digest-race.ts'

const { values } = parseArgs({
  options: {
    items: { type: 'string', default: '100000' },
    kills: { type: 'string', default: '12' },
    clients: { type: 'string', default: '6' },
  },
})
const result = await race({
  items: Number(values.items),
  kills: Number(values.kills),
  clients: Number(values.clients),
})
console.log(JSON.stringify(result))
const holds = result.missing === 0 && result.notFinal === 0 && result.late === 0
console.log(holds ? 'every item has left in time' : 'NOT every item has left in time')
process.exitCode = holds ? 0 : 1
