/**
 * Digests of one second under load and kills. In the end every item that was acknowledged must be on record, final, and
 * have left its digest within a second of its promise, the time apart in which no process ran; else the exit code is 1.
 * A hundred thousand items take a minute; `npm test` has a thousand of them. Run it on a machine that does nothing else:
 * where others keep the cores busy, a process that waits for one is late by that.
 *
 *     node --conditions=sluice-source bench/digest-race.ts --items 100000 --kills 12 --seed 1
 */
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { race } from '../packages/gateway/test/guarantees/digest-race.ts'

const { values } = parseArgs({
  options: {
    items: { type: 'string', default: '100000' },
    kills: { type: 'string', default: '12' },
    clients: { type: 'string', default: '6' },
    seed: { type: 'string', default: '1' },
  },
})
const load = loadavg()[0]
const { lateDigests, ...result } = await race({
  items: Number(values.items),
  kills: Number(values.kills),
  clients: Number(values.clients),
  seed: Number(values.seed),
})
console.log(JSON.stringify({ seed: Number(values.seed), loadBefore: load, ...result }))
if (lateDigests.length > 0)
  console.table(lateDigests.map((each) => ({ ...each, restart: JSON.stringify(each.restart) })))
const holds = result.missing === 0 && result.notFinal === 0 && result.late === 0
console.log(holds ? 'every item has left in time' : 'NOT every item has left in time')
process.exitCode = holds ? 0 : 1
