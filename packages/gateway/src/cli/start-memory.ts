/**
 * Gives the memory back that only the start needed. While a process loads, V8 sees that nearly everything stays, makes
 * its young generation as large as it may be, and keeps it as long as little happens: 27 of the 145 MB of an idle
 * gateway. One collection that gives back all it can costs some 100 ms, once.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

type Collect = (how: { type: 'major'; flavor: 'last-resort'; execution: 'sync' }) => void

export function giveBackStartMemory(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as Collect
  setFlagsFromString('--no-expose-gc')
  collect({ type: 'major', flavor: 'last-resort', execution: 'sync' })
}
