/**
 * Account slot leases: the rate of a provider's account, kept exactly by many processes with one call of the store
 * per slot. A process asks for tokens of the slot at hand and uses them by itself until the slot is over. The end is
 * told on this process's own monotonic clock, counted from when the question was sent, so that no clocks need agree.
 */
import { checkKey, checkList, checkOptions } from './calls.ts'
import { LimitsError } from './errors.ts'
import type { SlotBlock, SlotGrant, SlotQuestion, SlotWindow } from './slots.ts'
import { parseWindows, shortWindowMsMax, windowCountMax } from './window.ts'

/** The store of the slots: `memorySlots()` or `redisSlots(client)`. */
export interface SlotStore {
  /** Monotonic milliseconds of this process. */
  monotonicMs(): number
  /** Answers in the order of the questions, in which no account stands twice. */
  ask(call: SlotCall): Promise<readonly TimedGrant[]>
  /** Undefined lifts what stands. */
  block(slotMs: number, account: string, block: SlotBlock | undefined): Promise<void>
}

export interface SlotCall {
  readonly slotMs: number
  readonly questions: readonly SlotQuestion[]
  /** The time that a probe is waited for, ms. Where it is given, only probes are granted. */
  readonly probeMs: number | undefined
}

export interface TimedGrant extends SlotGrant {
  /** The end of the slot, on `monotonicMs`. */
  readonly endsAtMs: number
}

export interface SlotLeasesOptions {
  /** The store of the slots. */
  readonly store: SlotStore
  /**
   * The width of a slot, ms, the same in every process. Saturated use of a window W is W / (W + slotMs): of 1,000 a
   * second 909, 952, 980, 990 at 100, 50, 20, 10 ms. A window shorter than a slot is kept, and badly used.
   *
   * @defaultValue 20
   */
  readonly slotMs?: number
  /**
   * Every window W is kept as W + marginMs, ms: calls bunch on their way to the provider, who counts them there.
   *
   * @defaultValue 0
   */
  readonly marginMs?: number
  /**
   * After this a probe that nobody has settled, by `block` or `unblock`, is given to somebody else, ms.
   *
   * @defaultValue 30,000
   */
  readonly probeMs?: number
}

export interface SlotAsk {
  readonly account: string
  /** The account's rate: `'1000/s'`, `'100/s, 50000/h'` or a list. They travel with each call: a change holds at once. */
  readonly windows: string | readonly string[]
  /** The wanted tokens of this slot, 0 or more. With 0 only blocks are reported. */
  readonly want: number
}

/** Tokens of one account for the rest of a slot. */
export interface SlotLease {
  readonly account: string
  /** The number of tokens with which it began. */
  readonly granted: number
  /** The number of tokens that may still be used; 0 once the slot is over or the account is blocked. */
  readonly left: number
  /** The time that it lasts from now, ms; 0 when it is over or void. */
  readonly endsInMs: number
  /** The end of the account's block, epoch ms by the store's clock; undefined where none stood. */
  readonly blockedUntil: number | undefined
  /** True where the account waits for a probe: see `probe`. */
  readonly halfOpen: boolean
  /** Uses so many, all or none. Whoever is answered true may call the provider so often now; later it is too late. */
  use(count?: number): boolean
}

/** One lease for each ask. */
type LeasesOf<Asks extends readonly SlotAsk[]> = { readonly [Index in keyof Asks]: SlotLease }

export interface SlotLeases {
  /**
   * Leases tokens of the slot at hand, for all accounts in one call. Less than what is wanted may be granted; what is
   * not used when the slot ends is gone.
   *
   * @throws LimitsError `INVALID_ARGUMENT`, `INVALID_WINDOW` for what was asked; `STORE_UNAVAILABLE`
   */
  lease<const Asks extends readonly SlotAsk[]>(asks: Asks): Promise<LeasesOf<Asks>>
  /**
   * Asks for the one token by which a half-open account is tried. Exactly one process of all gets it, and settles it
   * by `unblock` or another `block`; for everybody else, and for an account that is not half open, `granted` is 0.
   */
  probe(ask: Omit<SlotAsk, 'want'>): Promise<SlotLease>
  /**
   * Blocks an account for all processes: nothing is granted before this instant (epoch ms by the store's clock). This
   * process's leases are void at once, those of others when they ask next and at the latest when their slot ends.
   * With `halfOpen` the block does not end by itself, but grants one probe from then on. The last word counts.
   */
  block(account: string, untilMs: number, options?: { readonly halfOpen?: boolean }): Promise<void>
  /** Lifts a block, half open or not. */
  unblock(account: string): Promise<void>
}

const probeMsDefault = 30_000
const slotMsMax = 60_000
const instantMax = 8.64e15
/** Texts of rates that are remembered with their windows. */
const rememberedMax = 1_000

/** @throws LimitsError `INVALID_ARGUMENT` */
export function createSlotLeases(options: SlotLeasesOptions): SlotLeases {
  const {
    store,
    slotMs = 20,
    marginMs = 0,
    probeMs = probeMsDefault,
  } = checkOptions(options, 'store', 'slotMs', 'marginMs', 'probeMs')
  if (typeof store?.ask !== 'function') refuse('store is memorySlots() or redisSlots(client)')
  if (!isWhole(slotMs, 1, slotMsMax)) refuse(`slotMs is a whole number from 1 to ${slotMsMax}, not ${slotMs}`)
  if (!isWhole(marginMs, 0, shortWindowMsMax))
    refuse(`marginMs is a whole number of milliseconds, 0 or more, not ${marginMs}`)
  if (!isWhole(probeMs, 1, shortWindowMsMax))
    refuse(`probeMs is a whole number of milliseconds, 1 or more, not ${probeMs}`)
  const windowsOf = createReader(marginMs)
  /** The number of times that each account was closed, as far as this process knows: a lease from before is void. */
  const epochs = new Map<string, number>()
  const closed = new Set<string>()
  const epochOf = (account: string): number => epochs.get(account) ?? 0
  const close = (account: string): void => {
    epochs.set(account, epochOf(account) + 1)
    closed.add(account)
  }

  async function ask(asks: readonly SlotAsk[], probing: number | undefined): Promise<readonly SlotLease[]> {
    const questions = checkList('asks', asks).map(({ account, windows, want }, index): SlotQuestion => {
      checkKey('account', account)
      if (!isWhole(want, 0, windowCountMax))
        refuse(`asks[${index}].want is a whole number from 0 to ${windowCountMax}, not ${String(want)}`)
      return { account, windows: windowsOf(windows), want }
    })
    if (new Set(asks.map(({ account }) => account)).size < asks.length)
      refuse('one call names an account twice')
    if (questions.length === 0) return []
    const sent = questions.map(({ account }) => epochOf(account))
    const grants = await store.ask({ slotMs, questions, probeMs: probing })
    return questions.map(({ account }, index) => {
      const grant = grants[index]!
      // An account that was closed while the answer was on its way may not be used. A probe outlives further news of its block.
      const isCurrent = epochOf(account) === sent[index]
      if (grant.blockedUntil === undefined && !grant.halfOpen) closed.delete(account)
      else if (!closed.has(account)) close(account)
      const epoch = isCurrent ? epochOf(account) : Number.NaN
      return new Lease(account, grant, () => epochOf(account) === epoch, store)
    })
  }

  async function block(account: string, change: SlotBlock | undefined): Promise<void> {
    checkKey('account', account)
    if (change !== undefined) close(account)
    await store.block(slotMs, account, change)
  }

  return {
    lease: async <const Asks extends readonly SlotAsk[]>(asks: Asks) =>
      (await ask(asks, undefined)) as LeasesOf<Asks>,
    probe: async (one) => (await ask([{ ...one, want: 1 }], probeMs))[0]!,
    async block(account, untilMs, { halfOpen = false } = {}) {
      if (typeof untilMs !== 'number' || !(untilMs >= 0 && untilMs <= instantMax))
        refuse(`untilMs is an instant in epoch milliseconds, not ${String(untilMs)}`)
      if (typeof halfOpen !== 'boolean') refuse('halfOpen is true or false')
      await block(account, { untilMs: Math.ceil(untilMs), halfOpen })
    },
    unblock: (account) => block(account, undefined),
  }
}

class Lease implements SlotLease {
  readonly account: string
  readonly granted: number
  readonly blockedUntil: number | undefined
  readonly halfOpen: boolean
  readonly #endsAtMs: number
  readonly #holds: () => boolean
  readonly #store: SlotStore
  #left: number

  constructor(account: string, grant: TimedGrant, holds: () => boolean, store: SlotStore) {
    this.account = account
    this.granted = grant.granted
    this.blockedUntil = grant.blockedUntil
    this.halfOpen = grant.halfOpen
    this.#left = grant.granted
    this.#endsAtMs = grant.endsAtMs
    this.#holds = holds
    this.#store = store
  }

  get endsInMs(): number {
    return this.#holds() ? Math.max(0, this.#endsAtMs - this.#store.monotonicMs()) : 0
  }

  get left(): number {
    return this.endsInMs > 0 ? this.#left : 0
  }

  use(count = 1): boolean {
    if (!isWhole(count, 1, windowCountMax)) refuse(`use(count) takes a whole number, 1 or more, not ${count}`)
    if (count > this.left) return false
    this.#left -= count
    return true
  }
}

/** Reads rates, each text once. */
function createReader(marginMs: number): (windows: string | readonly string[]) => readonly SlotWindow[] {
  const known = new Map<string, readonly SlotWindow[]>()
  return (windows) => {
    const text = Array.isArray(windows) ? windows.join() : String(windows)
    const read = known.get(text)
    if (read !== undefined) return read
    const longest = shortWindowMsMax - marginMs
    const parsed = parseWindows(windows).map(({ max, windowMs, text: written }): SlotWindow => {
      if (windowMs > longest) refuse(`'${written}' and its margin of ${marginMs} ms are longer than 31 days`)
      return { max, windowMs: windowMs + marginMs }
    })
    if (parsed.length === 0) refuse('windows is empty: an account without a rate needs no leases')
    if (known.size >= rememberedMax) known.clear()
    known.set(text, parsed)
    return parsed
  }
}

function isWhole(value: number, min: number, max: number): boolean {
  return Number.isInteger(value) && value >= min && value <= max
}

function refuse(reason: string): never {
  throw new LimitsError('INVALID_ARGUMENT', reason)
}
