/**
 * Engines end with the last file that looks for them. Kafka and Cassandra are looked for by three files of the whole
 * run, and an idle one takes 20 ms of CPU each second: 35 s together, where they waited for the end of the run.
 */
import type { Group } from './groups.ts'

/** The engines that each file looks for. */
export type EnginesByFile = ReadonlyMap<string, ReadonlySet<string>>

/** Returns a function that is told of each group that has ended, and names the engines that nobody needs any more. */
export function createReleases(engines: EnginesByFile): (ended: Group) => readonly string[] {
  const left = new Map([...engines].map(([file, names]) => [file, names]))
  return (ended) => {
    const used = new Set(ended.flatMap((file) => [...(left.get(file) ?? [])]))
    for (const file of ended) left.delete(file)
    for (const names of left.values()) for (const name of names) used.delete(name)
    return [...used]
  }
}

/** An engine that so few files look for ends early when they begin first. */
const fewMax = 3

/** Puts the groups in front that look for an engine which few look for. */
export function rareFirst(groups: readonly Group[], engines: EnginesByFile): readonly Group[] {
  const counts = new Map<string, number>()
  for (const names of engines.values())
    for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  const isRare = (group: Group): boolean =>
    group.some((file) => [...(engines.get(file) ?? [])].some((name) => counts.get(name)! <= fewMax))
  return [...groups.filter(isRare), ...groups.filter((group) => !isRare(group))]
}
