/**
 * Reads of single keys that are asked for in one turn of the event loop share one statement. A statement costs some 100 µs
 * of CPU on each side however few rows it reads, and each recipient that is new to a process is read twice. While as many
 * statements as may run at once are under way, keys wait for the next one. A key never joins a statement that was sent
 * before, so that its answer is as new as its question.
 */

export interface GatheredReadsOptions<Key, Value> {
  /** Reads the values of the keys, in their order. */
  readonly read: (keys: readonly Key[]) => Promise<readonly Value[]>
  /** Keys in one statement. @defaultValue 64 */
  readonly most?: number
  /** Statements at once. @defaultValue 2, so that of four connections others are free */
  readonly atOnce?: number
}

interface Asked<Key, Value> {
  readonly key: Key
  readonly resolve: (value: Value) => void
  readonly reject: (error: unknown) => void
}

export function gatherReads<Key, Value>(
  options: GatheredReadsOptions<Key, Value>,
): (key: Key) => Promise<Value> {
  const { read, most = 64, atOnce = 2 } = options
  /** Bounded by the requests and the attempts that wait for an answer. */
  const waiting: Asked<Key, Value>[] = []
  let running = 0
  let willStart = false

  function start(): void {
    willStart = false
    while (running < atOnce && waiting.length > 0) {
      const group = waiting.splice(0, most)
      running += 1
      void readGroup(group).finally(() => {
        running -= 1
        start()
      })
    }
  }

  async function readGroup(group: readonly Asked<Key, Value>[]): Promise<void> {
    try {
      const values = await read(group.map(({ key }) => key))
      for (const [index, { resolve }] of group.entries()) resolve(values[index]!)
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }

  return (key) =>
    new Promise((resolve, reject) => {
      waiting.push({ key, resolve, reject })
      if (willStart || running >= atOnce) return
      willStart = true
      setImmediate(start)
    })
}
