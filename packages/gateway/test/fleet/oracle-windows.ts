/**
 * Holds the calls at the provider's socket against the limits of recipients and authors and against the rates of the
 * accounts: every rolling window is counted by itself, over the calls of all processes.
 */
import { actorsOf, type Watched } from './oracle.ts'
import { accountsOf, isBeforeChange, type LimitRule, limitsOf, type Settings } from './settings.ts'
import type { Call } from './sim-provider.ts'

/** A call of a provider that tells when it is written may be written so long after its limits have counted it, ms. */
const countedBeforeMs = 100

/** The tokens of an account that processes with other rates have got for the same slots, ms. */
const sameSlotsMs = 100

/**
 * A process hears within this of the end of another one with another policy, and counts from then on what that has sent
 * under limits that it did not have, ms.
 */
const heardMs = 5_000

/** Tells which processes count calls that others made under limits that those did not have. */
function createRollout(now: () => number, settings: Settings) {
  const alive = new Set<number>()
  /** When the last process with either policy ended: 0 that of before, 1 the changed one. */
  const endedAt = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
  const kindOf = (process: number): 0 | 1 => (isBeforeChange(settings, process) ? 0 : 1)
  const { limits, changedLimits = limits } = settings
  const isCommon = (name: string): boolean =>
    [limits, changedLimits].every((each) => each.some((rule) => rule.name === name))
  return {
    born: (process: number) => void alive.add(process),
    died(process: number): void {
      alive.delete(process)
      endedAt[kindOf(process)] = now()
    },
    countsAll({ name }: LimitRule, process: number): boolean {
      const other = kindOf(process) === 0 ? 1 : 0
      const isAlone = [...alive].every((each) => kindOf(each) !== other)
      return isCommon(name) || (isAlone && endedAt[other]! + heardMs < now())
    },
  }
}

/** Calls by key, each list in the order in which they were written. */
class Lists {
  readonly #byKey = new Map<string, Call[]>()

  add(key: string, call: Call): readonly Call[] {
    const list = this.#byKey.get(key) ?? []
    this.#byKey.set(key, list)
    list.push(call)
    return list
  }
}

/**
 * Counts the calls of the half-open window that ends with this one: (at − windowMs, at]. A critical one asks nobody: what
 * the limits had already counted when it left cannot be called back, and its batch may wait for other answers until it is
 * handed over.
 */
function countIn(calls: readonly Call[], last: Call, windowMs: number): number {
  const overtook = ({ message, handedAt }: Call): boolean =>
    message.priority === 'critical' && handedAt >= last.handedAt - countedBeforeMs
  return calls.filter((each) => each.at > last.at - windowMs && (each === last || !overtook(each))).length
}

/** Returns what is to be told of the births and deaths of processes. */
export function watchWindows({ world, settings, service }: Watched) {
  const rollout = createRollout(world.now, settings)
  const everyLimit = new Map(
    [...settings.limits, ...(settings.changedLimits ?? [])].map((rule) => [rule.name, rule] as const),
  )
  const arrivals = new Lists()
  const calls = new Lists()

  function countAccount(call: Call): void {
    const { account, at, message, process } = call
    const id = account.replace(/^sms-/, '')
    const rates = accountsOf(settings, process)
    // A process with higher rates may have got tokens behind this one, and use them before.
    const ofAccount = calls
      .add(account, call)
      .filter((each) => each.at <= at - sameSlotsMs || accountsOf(settings, each.process) === rates)
    for (const { max, windowMs } of rates.find((each) => each.id === id)!.windows) {
      const count = ofAccount.filter((each) => each.at > at - windowMs).length
      if (count > max)
        world.violate(
          '1 account',
          `${count} calls of ${account} within ${windowMs} ms, of ${max}: ${message.id}`,
        )
    }
  }

  function countArrival(call: Call): void {
    const { message } = call
    const { tenant, to, category, channel, priority } = message
    const own = limitsOf(settings, call.process)
    for (const each of everyLimit.values()) {
      const rule = own.find(({ name }) => name === each.name) ?? each
      if (rule.category !== undefined && rule.category !== category) continue
      if (rule.channel !== undefined && rule.channel !== channel) continue
      const authors = rule.per.includes('actor') ? actorsOf(message) : ['']
      for (const author of authors) {
        const key = [rule.name, tenant, rule.per.includes('recipient') ? to.id : '', author].join('/')
        const ofKey = arrivals.add(key, call)
        // A critical one counts, and asks nobody.
        if (priority === 'critical' || !own.includes(rule) || !rollout.countsAll(rule, call.process)) continue
        const count = countIn(ofKey, call, rule.windowMs)
        if (count > rule.max)
          world.violate('1 limit', `${count} in ${rule.windowMs} ms of ${key}, of ${rule.max}: ${message.id}`)
        if (rule.minGapMs !== undefined && countIn(ofKey, call, rule.minGapMs) > 1)
          world.violate(
            '1 distance',
            `closer than ${rule.minGapMs} ms to the one before: ${key}: ${message.id}`,
          )
      }
    }
  }

  service.observers.add((call, what) => {
    if (what !== 'written') return
    countAccount(call)
    if (call.arrived) countArrival(call)
  })
  return { born: rollout.born, died: rollout.died }
}
