/**
 * Watches the maps and sets that the gateway makes. It is imported before the gateway; while it is watched, each
 * construction by a source of the gateway is noted with its place, and can be looked through while it is alive. What a
 * closure alone holds, or an array outside all maps, is not seen.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

interface Made {
  readonly made: WeakRef<Map<unknown, unknown> | Set<unknown>>
  /** File and line of its construction. */
  readonly file: string
  readonly line: number
}

/** Something that a map or set of the gateway holds. */
export interface Kept {
  /** File within packages/gateway/src and name of the map: `delivery/retry.ts failedBy`. */
  readonly name: string
  readonly id: string
  /** Maps and sets of this name that hold something sought. */
  readonly count: number
}

const source =
  /\/packages\/(gateway\/src\/(?!store\/memory\/|simulation\/|adapters\/state\/lua\/)|limits\/src\/)/
const nameOf = /([\w.#]+)(?::[^=]*)?\s*(?:\?\?)?=[^=].*new (?:Map|Set)/
const idInText = /[0-9A-HJKMNP-TV-Z]{26}/g
/** How often it is looked for what should be gone, and how long to wait between, ms of real time. */
const looksMax = 10
const lookAgainMs = 100
const realTimeout = setTimeout
/** Values within a value that are looked through, and how deep. */
const valuesMax = 500
const depthMax = 4

/**
 * Texts of the sources, by their addresses: as lines they would be a tenth of all that a collection goes through. They are read when the watch is loaded, as the gateway is soon after: at the end
 * of a long run a source may have changed, and another map would be blamed.
 */
const textByFile = new Map<string, string>()
for (const folder of ['../../src/', '../../../limits/src/']) {
  const root = fileURLToPath(new URL(folder, import.meta.url))
  for (const path of readdirSync(root, { encoding: 'utf8', recursive: true })) {
    if (!path.endsWith('.ts')) continue
    const file = join(root, path)
    textByFile.set(pathToFileURL(file).href, readFileSync(file, 'utf8'))
  }
}

/** Absent while nothing is watched. */
let made: Made[] | undefined

function watched<Of extends MapConstructor | SetConstructor>(of: Of): Of {
  return new Proxy(of, {
    construct(target, args, newTarget): object {
      const result = Reflect.construct(target, args, newTarget) as Map<unknown, unknown> | Set<unknown>
      if (made === undefined) return result
      const [, caller] = callSites()
      const file = caller?.getFileName() ?? ''
      if (source.test(file))
        made.push({ made: new WeakRef(result), file, line: caller!.getLineNumber() ?? 0 })
      return result
    },
  })
}

/** The constructor's trap, and who called it. The sites themselves hold their receivers, and are not kept. */
function callSites(): readonly NodeJS.CallSite[] {
  const { stackTraceLimit, prepareStackTrace } = Error
  Error.stackTraceLimit = 2
  Error.prepareStackTrace = (_, sites) => sites
  const place: { stack?: readonly NodeJS.CallSite[] } = {}
  Error.captureStackTrace(place, callSites)
  const { stack = [] } = place
  Error.stackTraceLimit = stackTraceLimit
  Error.prepareStackTrace = prepareStackTrace
  return stack
}

/** Put back behind a run, since each use of a proxy costs ten times that of a map. */
const unwatched = { Map, Set }
const proxies = { Map: watched(Map), Set: watched(Set) }
// Sources that are loaded from here on derive their own kinds of maps from them.
Object.assign(globalThis, proxies)
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Forgets what was made before: by a process that has ended, or by an earlier run. */
export function watchMemory(): void {
  made = []
  Object.assign(globalThis, proxies)
}

export function endMemoryWatch(): void {
  made = undefined
  Object.assign(globalThis, unwatched)
}

/** Collects garbage, and finds the ids for which this is true in the maps and sets that are left, one of each name. */
export async function keptInMemory(isSought: (id: string) => boolean): Promise<readonly Kept[]> {
  // A weak reference keeps its target until the end of this turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve))
  collect()
  const kept = new Map<string, Kept>()
  for (const { made: reference, file, line } of made ?? []) {
    const collection = reference.deref()
    if (collection === undefined || collection.size === 0) continue
    const id = idWithin(collection, isSought)
    if (id === undefined) continue
    const name = nameAt(file, line)
    kept.set(name, { name, id, count: (kept.get(name)?.count ?? 0) + 1 })
  }
  return [...kept.values()]
}

/**
 * Finds the same beyond what may be kept of each name. A function that V8 compiles in a thread of its own keeps what it holds
 * until that ends, on a busy machine for some time: what is found is looked for again until it stays.
 */
export async function keptForGood(
  isSought: (id: string) => boolean,
  mayKeep: ReadonlyMap<string, number>,
): Promise<readonly Kept[]> {
  for (let looks = 1; ; looks += 1) {
    const kept = await keptInMemory(isSought)
    const surplus = kept.filter(({ name, count }) => count > (mayKeep.get(name) ?? 0))
    if (surplus.length === 0 || looks === looksMax) return surplus
    await new Promise((resolve) => realTimeout(resolve, lookAgainMs))
  }
}

function idWithin(value: unknown, isSought: (id: string) => boolean): string | undefined {
  let left = valuesMax
  function within(each: unknown, depth: number): string | undefined {
    left -= 1
    if (left < 0) return undefined
    if (typeof each === 'string') return each.match(idInText)?.find(isSought)
    if (typeof each !== 'object' || each === null || depth === depthMax) return undefined
    const parts =
      each instanceof Map
        ? [...each.keys(), ...each.values()]
        : each instanceof Set || Array.isArray(each)
          ? [...each]
          : Object.values(each)
    for (const part of parts) {
      const found = within(part, depth + 1)
      if (found !== undefined) return found
    }
    return undefined
  }
  return within(value, 0)
}

/** Names a map by its file and the variable on its line. */
function nameAt(file: string, line: number): string {
  const text = textByFile.get(file)?.split('\n')[line - 1]
  const name = nameOf.exec(text ?? '')?.[1] ?? `line ${line}`
  const path = file.replace(/.*\/packages\/(gateway\/src\/)?/, '').replace('limits/src/', '@sluice/limits ')
  return `${path} ${name.replace('#', '')}`
}
