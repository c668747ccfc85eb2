/**
 * Which lanes of a subject belong to a set of streams. Whoever counts streams counts all of a lane or nothing of it:
 * a lane of which only some streams are meant is split before, and streams that are new begin in one lane together.
 */
import { Lane } from './lane.ts'

/** Subjects with more lanes than this (followers of many authors) find them through a map. */
const listedMax = 16

export class Lanes {
  /** All lanes of the subject. */
  all: readonly Lane[]
  /** Those of the plan at hand, each once. Replaced when they change, because entries keep it. */
  chosen: readonly Lane[]
  /** The lane of each stream of the plan at hand, in its order. */
  seats: readonly Lane[] = []
  #byName: Map<string, Lane> | undefined = undefined

  constructor(first: Lane | undefined) {
    this.all = first === undefined ? [] : [first]
    this.chosen = this.all
  }

  of(name: string): Lane | undefined {
    if (this.all.length <= listedMax) return this.all.find((lane) => lane.names.includes(name))
    this.#byName ??= new Map(this.all.flatMap((lane) => lane.names.map((one) => [one, lane] as const)))
    return this.#byName.get(name)
  }

  /**
   * The lanes that hold these streams and no others, each once. `names` are distinct. Where a lane goes on as two,
   * whoever refers to it must refer to both: `onSplit` is told.
   */
  cover(names: readonly string[], onSplit: (lane: Lane, twin: Lane) => void): readonly Lane[] {
    const found: Lane[] = []
    const unknown: string[] = []
    for (const name of names) {
      const lane = this.of(name)
      if (lane === undefined) unknown.push(name)
      else if (!found.includes(lane)) found.push(lane)
    }
    const lanes = found.map((lane) => {
      const meant = lane.names.filter((name) => names.includes(name))
      if (meant.length === lane.names.length) return lane
      const twin = this.#add(lane.split(meant))
      onSplit(lane, twin)
      return twin
    })
    if (unknown.length > 0) lanes.push(this.#add(new Lane(unknown)))
    return lanes
  }

  /** Drops the lanes that hold nothing. Answers whether there were any. */
  dropEmpty(): boolean {
    const kept = this.all.filter((lane) => !lane.isEmpty)
    if (kept.length === this.all.length) return false
    this.all = kept
    this.#byName = undefined
    return true
  }

  #add(lane: Lane): Lane {
    this.all = [...this.all, lane]
    for (const name of lane.names) this.#byName?.set(name, lane)
    return lane
  }
}
