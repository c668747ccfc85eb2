/**
 * Digests of one second under load and kills. In the end every item that was acknowledged must be on record, final, and
 * have left its digest within a second of its promise, the time apart in which no process ran; else the exit code is 1.
 * A hundred thousand items take a minute; `npm test` has a thousand of them. Run it on a machine that does nothing else:
 * where others keep the cores busy, a process that waits for one is late by that. Of late digests it prints how long the
 * threads of the gateway ran and waited for a core meanwhile, and how late they are beyond that (`beyondCores`). At a load of
 * 21 on two cores items were late by 3.4 s, and by 0.6 s beyond the waiting.
 *
 *     node --conditions=sluice-source bench/digest-race.ts --items 100000 --kills 12 --seed 1
 */
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { race } from '../packages/gateway/test/guarantees/digest-race.ts'
import { type ThreadWatch, watchThreads } from './thread-times.ts'

const { values } = parseArgs({
  options: {
    items: { type: 'string', default: '100000' },
    kills: { type: 'string', default: '12' },
    clients: { type: 'string', default: '6' },
    seed: { type: 'string', default: '1' },
  },
})
const load = loadavg()[0]
let threads: ThreadWatch | undefined
const { lateDigests, startedAt, pauses, ...result } = await race({
  items: Number(values.items),
  kills: Number(values.kills),
  clients: Number(values.clients),
  seed: Number(values.seed),
  watch: (pidOf) => {
    threads = watchThreads(pidOf)
  },
})
threads?.stop()
console.log(JSON.stringify({ seed: Number(values.seed), loadBefore: load, ...result }))
const measured = lateDigests.map(({ restart, ...each }) => {
  // From the promise of its first item on, which is the latest.
  const span = { from: startedAt + each.firstJoinedAt + 1_000, to: startedAt + each.leftAt }
  const times = threads!.within(span, pauses)
  const beyondCores = each.lateMs - times.eitherWaited
  return { ...each, restart: restart && `${restart.from}-${restart.to}`, ...times, beyondCores }
})
if (measured.length > 0) {
  console.table(measured.slice(0, 10))
  console.table(measured.toSorted((a, b) => b.beyondCores - a.beyondCores).slice(0, 5))
  const most = Math.max(...measured.map(({ beyondCores }) => beyondCores))
  console.log(
    `without the time in which its threads waited for a core, none was late by more than ${most} ms`,
  )
}
const holds = result.missing === 0 && result.notFinal === 0 && result.late === 0
console.log(holds ? 'every item has left in time' : 'NOT every item has left in time')
process.exitCode = holds ? 0 : 1
