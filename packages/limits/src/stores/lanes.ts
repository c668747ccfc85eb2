/**
 * Which lanes of a subject belong to a set of streams. Whoever counts streams counts all of a lane or nothing of it:
 * a lane of which only some streams are meant is split before, and streams that are new begin in one lane together.
 */
import { Lane } from './lane.ts'

export interface LaneHolder {
  /** All lanes of the subject. Replaced when it changes, because callers keep it. */
  all: readonly Lane[]
  /** Where the names are too many to look through. */
  byName: Map<string, Lane> | undefined
  /** A lane goes on as two: whoever refers to it refers to both. */
  onSplit(lane: Lane, twin: Lane): void
}

/** Subjects with more lanes than this (followers of many authors) find them through a map. */
const listedMax = 16

export function laneOf(holder: LaneHolder, name: string): Lane | undefined {
  if (holder.all.length <= listedMax) return holder.all.find((lane) => lane.names.includes(name))
  holder.byName ??= new Map(holder.all.flatMap((lane) => lane.names.map((one) => [one, lane] as const)))
  return holder.byName.get(name)
}

/** The lanes that hold these streams and no others, each once. `names` are distinct. */
export function cover(holder: LaneHolder, names: readonly string[]): readonly Lane[] {
  if (holder.all.length === 0 && names.length > 0) {
    holder.all = [new Lane(names)]
    return holder.all
  }
  const found: Lane[] = []
  const unknown: string[] = []
  for (const name of names) {
    const lane = laneOf(holder, name)
    if (lane === undefined) unknown.push(name)
    else if (!found.includes(lane)) found.push(lane)
  }
  const lanes = found.map((lane) => separate(holder, lane, names))
  if (unknown.length > 0) lanes.push(add(holder, new Lane(unknown)))
  return lanes
}

/** The lane itself where all of its streams are meant, else a new one that holds those that are. */
function separate(holder: LaneHolder, lane: Lane, names: readonly string[]): Lane {
  const meant = lane.names.filter((name) => names.includes(name))
  if (meant.length === lane.names.length) return lane
  const twin = add(holder, lane.split(meant))
  holder.onSplit(lane, twin)
  return twin
}

function add(holder: LaneHolder, lane: Lane): Lane {
  holder.all = [...holder.all, lane]
  for (const name of lane.names) holder.byName?.set(name, lane)
  return lane
}

/** Drops the lanes that hold nothing. Answers whether there were any. */
export function dropEmpty(holder: LaneHolder): boolean {
  const kept = holder.all.filter((lane) => !lane.isEmpty)
  if (kept.length === holder.all.length) return false
  holder.all = kept
  holder.byName = undefined
  return true
}
