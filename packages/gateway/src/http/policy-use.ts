/**
 * Use of the policy: by hour, limit and window, what became of the notifications that the limit was asked about. Counted
 * at the first decision, from what the ledger reports, in memory: a week of hours, which begins with the process. The
 * processes of a fleet ask each other for their counts.
 */
import type { Decision, Notification } from '../model.ts'
import { uniform32 } from '../policy/hash.ts'
import type { Happening, Ledger } from '../stages.ts'

const usePeriods = { '1h': 1, '1d': 24, '7d': 168 } as const
export type UsePeriod = keyof typeof usePeriods

export interface WindowUse {
  readonly limit: string
  readonly window: string
  /** The window had room. */
  readonly admitted: number
  readonly delayed: number
  readonly dropped: number
  readonly digested: number
  readonly fellBack: number
  /** Different recipients for whom the window was full: an estimate, within some 7 % where there are many. */
  readonly recipientsFull: number
}

/** The counts of one process, as it tells them to another one of its fleet. */
export interface UseShare {
  /** Since when they are counted, epoch ms. */
  readonly from: number
  readonly windows: readonly {
    readonly limit: string
    readonly window: string
    readonly counts: Readonly<Record<Counted, number>>
    /** The sketch of the recipients for whom the window was full, in base64. */
    readonly full: string
  }[]
}

export interface PolicyUse {
  /** The windows that this process has asked about. */
  read(period: UsePeriod): UseShare
}

export interface PolicyUseOptions {
  readonly ledger: Pick<Ledger, 'subscribe'>
  readonly clock: { now(): number }
}

const hourMs = 3_600_000
const hoursKept = usePeriods['7d']
/** Windows that are counted at most; further ones count as `other`. With all of them full in each hour 17 MB. */
const windowsMax = 400
/** Registers of a sketch of different recipients (HyperLogLog, Flajolet 2007), a byte each: an error of 1.04/√256. */
const registers = 256

const outcomes = ['admitted', 'delayed', 'dropped', 'digested', 'fellBack'] as const
type Counted = (typeof outcomes)[number]
const countedAs: Readonly<Record<Decision['outcome'], Counted>> = {
  send: 'delayed',
  delay: 'delayed',
  digest: 'digested',
  fallback: 'fellBack',
  suppress: 'dropped',
}

interface Hour {
  hour: number
  readonly counts: Record<Counted, number>
  /** Absent while the window was full for nobody. */
  full: Uint8Array | undefined
}

interface Counters {
  readonly limit: string
  readonly window: string
  /** By hour, modulo the hours that are kept. */
  readonly hours: (Hour | undefined)[]
}

export function createPolicyUse({ ledger, clock }: PolicyUseOptions): PolicyUse {
  const begunAt = clock.now()
  const windows = new Map<string, Counters>()

  function countersOf(limit: string, window: string): Counters {
    const key = `${limit}\n${window}`
    const found = windows.get(key)
    if (found !== undefined) return found
    if (windows.size >= windowsMax && limit !== 'other') return countersOf('other', '')
    const created: Counters = { limit, window, hours: [] }
    windows.set(key, created)
    return created
  }

  function hourOf({ hours }: Counters, hour: number): Hour {
    const known = hours[hour % hoursKept]
    if (known?.hour === hour) return known
    const begun: Hour = { hour, counts: noCounts(), full: undefined }
    hours[hour % hoursKept] = begun
    return begun
  }

  function count({ tenant, to, decision }: Notification): void {
    const hour = Math.floor(clock.now() / hourMs)
    let hash: readonly [number, number] | undefined
    for (const { limit, window, admits } of decision.rules) {
      const own = hourOf(countersOf(limit, window), hour)
      own.counts[admits ? 'admitted' : countedAs[decision.outcome]] += 1
      if (admits) continue
      hash ??= hashOf(tenant, to.id)
      own.full ??= new Uint8Array(registers)
      const [register, rank] = hash
      own.full[register] = Math.max(own.full[register]!, rank)
    }
  }

  ledger.subscribe(({ notification, before, events }: Happening) => {
    // A notification that waits for a limit of its tenant is decided for its recipient when its turn comes.
    if (notification.undecided === true) return
    const isNew = before === undefined && events[0]?.status === 'accepted'
    if (isNew || before?.undecided === true) count(notification)
  })

  return {
    read(period) {
      const present = Math.floor(clock.now() / hourMs)
      const first = present - usePeriods[period] + 1
      const rows: UseShare['windows'][number][] = []
      for (const { limit, window, hours } of windows.values()) {
        const counts = noCounts()
        const full = new Uint8Array(registers)
        for (const hour of hours) {
          if (hour === undefined || hour.hour < first || hour.hour > present) continue
          for (const name of outcomes) counts[name] += hour.counts[name]
          if (hour.full !== undefined) join(full, hour.full)
        }
        if (outcomes.some((name) => counts[name] > 0))
          rows.push({ limit, window, counts, full: Buffer.from(full).toString('base64') })
      }
      return { from: Math.max(begunAt, first * hourMs), windows: rows }
    },
  }
}

/** The use that several processes have counted, since the earliest of them counts. */
export function useOf(shares: readonly UseShare[]): {
  readonly from: number
  readonly windows: readonly WindowUse[]
} {
  const all = new Map<string, { readonly counts: Record<Counted, number>; readonly full: Uint8Array }>()
  for (const { limit, window, counts, full } of shares.flatMap(({ windows }) => windows)) {
    const key = `${limit}\n${window}`
    const found = all.get(key) ?? { counts: noCounts(), full: new Uint8Array(registers) }
    for (const name of outcomes) found.counts[name] += counts[name]
    join(found.full, Buffer.from(full, 'base64'))
    all.set(key, found)
  }
  return {
    from: Math.min(...shares.map(({ from }) => from)),
    windows: [...all].map(([key, { counts, full }]) => {
      const [limit, window] = key.split('\n') as [string, string]
      return { limit, window, ...counts, recipientsFull: distinct(full) }
    }),
  }
}

const noCounts = (): Record<Counted, number> => ({
  admitted: 0,
  delayed: 0,
  dropped: 0,
  digested: 0,
  fellBack: 0,
})

/** Adds one sketch to another. */
function join(sketch: Uint8Array, other: Uint8Array): void {
  for (let register = 0; register < registers; register += 1)
    sketch[register] = Math.max(sketch[register]!, other[register]!)
}

/** The register of a recipient, and the rank of its hash: one more than the leading zeros of its other 24 bits. */
function hashOf(tenant: string, recipient: string): readonly [register: number, rank: number] {
  const hash = uniform32(`${tenant}\n${recipient}`)
  return [hash % registers, Math.clz32(hash >>> 8) - 7]
}

/** The estimate of a sketch; while registers are empty their share is the better measure. */
function distinct(sketch: Uint8Array): number {
  let sum = 0
  let empty = 0
  for (const rank of sketch) {
    sum += 2 ** -rank
    if (rank === 0) empty += 1
  }
  const alpha = 0.7213 / (1 + 1.079 / registers)
  const raw = (alpha * registers * registers) / sum
  return Math.round(raw <= 2.5 * registers && empty > 0 ? registers * Math.log(registers / empty) : raw)
}
