/**
 * The event logs of a subject by their streams. A call counts in all of an event log or in nothing of it: one of which
 * only some streams are meant is split before, and streams that are new begin in one event log together.
 */
import { EventLog } from './event-log.ts'

/** Subjects with more event logs than this (followers of many authors) find them through a map. */
const listedMax = 16

export class EventLogs {
  /** All event logs of the subject. */
  all: readonly EventLog[]
  /** The event logs of the plan at hand, each once. Replaced when they change, because entries keep the list. */
  chosen: readonly EventLog[]
  /** The event log of each stream of the plan at hand, in its order. */
  planLogs: readonly EventLog[] = []
  #byName: Map<string, EventLog> | undefined = undefined

  constructor(first: EventLog | undefined) {
    this.all = first === undefined ? [] : [first]
    this.chosen = this.all
  }

  of(name: string): EventLog | undefined {
    if (this.all.length <= listedMax) return this.all.find((eventLog) => eventLog.names.includes(name))
    this.#byName ??= new Map(
      this.all.flatMap((eventLog) => eventLog.names.map((one) => [one, eventLog] as const)),
    )
    return this.#byName.get(name)
  }

  /**
   * Answers the event logs that hold these streams and no others, each once. `names` are distinct. Where one is split,
   * entries that refer to it must refer to both: `onSplit` is called.
   */
  cover(
    names: readonly string[],
    onSplit: (eventLog: EventLog, twin: EventLog) => void,
  ): readonly EventLog[] {
    const found: EventLog[] = []
    const unknown: string[] = []
    for (const name of names) {
      const eventLog = this.of(name)
      if (eventLog === undefined) unknown.push(name)
      else if (!found.includes(eventLog)) found.push(eventLog)
    }
    const eventLogs = found.map((eventLog) => {
      const meant = eventLog.names.filter((name) => names.includes(name))
      if (meant.length === eventLog.names.length) return eventLog
      const twin = this.#add(eventLog.splitOff(meant))
      onSplit(eventLog, twin)
      return twin
    })
    if (unknown.length > 0) eventLogs.push(this.#add(new EventLog(unknown)))
    return eventLogs
  }

  /** Drops the event logs that hold nothing. Answers whether there were any. */
  dropEmpty(): boolean {
    const kept = this.all.filter((eventLog) => !eventLog.isEmpty)
    if (kept.length === this.all.length) return false
    this.all = kept
    this.#byName = undefined
    return true
  }

  #add(eventLog: EventLog): EventLog {
    this.all = [...this.all, eventLog]
    for (const name of eventLog.names) this.#byName?.set(name, eventLog)
    return eventLog
  }
}
