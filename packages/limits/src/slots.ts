/**
 * Account slots, and nothing but the arithmetic. Time is cut into slots, and a token of a slot may be used at any
 * moment within it and not afterwards. A half-open interval of length W touches at most ⌈W/d⌉ + 1 slots of width d: so
 * where no run of so many slots holds more than N tokens, no rolling window holds more than N uses. Short windows are
 * counted by the slots themselves, long ones in rings of wider slots, so that an hour costs no more than a second.
 */

/** One window of an account's rate. */
export interface SlotWindow {
  /** At most so many. 0 grants nothing. */
  readonly max: number
  readonly windowMs: number
}

/** The demand of one account, in the form that stores work with. */
export interface SlotQuestion {
  readonly account: string
  /** At least one; margins are added. */
  readonly windows: readonly SlotWindow[]
  readonly want: number
}

/** The answer for one account. */
export interface SlotGrant {
  readonly granted: number
  /** The end of its block, epoch ms; undefined where none stands. */
  readonly blockedUntil: number | undefined
  /** True where its block is over and waits for a probe to succeed. */
  readonly halfOpen: boolean
}

export interface SlotBlock {
  /** Nothing is granted before this instant, epoch ms. */
  readonly untilMs: number
  /** True where it grants one probe from then on, and nothing else until it is lifted. */
  readonly halfOpen: boolean
}

/** The slots in which a window is counted: they are so many times as wide, and `run` of them together may hold its maximum. */
export interface Ring {
  readonly width: number
  readonly run: number
}

/** A ring has at most so many slots and one; saturated use of a long window is 128/129 of it. */
const ringMax = 128

export function ringOf(windowMs: number, slotMs: number): Ring {
  const width = Math.ceil(windowMs / (slotMs * ringMax))
  return { width, run: Math.ceil(windowMs / (slotMs * width)) + 1 }
}

/**
 * The behaviour of slots of which nothing is known, because they are new or were lost: `grant` as if nothing had been granted
 * before, or `wait`, granting nothing until every window of at most 128 slots (2.56 s at 20 ms) is over. Longer windows
 * are for whoever has their use on record.
 */
export const coldStarts = ['grant', 'wait'] as const
export type ColdStart = (typeof coldStarts)[number]

/** The tokens of one account under one window. */
class Tokens {
  sum = 0
  readonly #ring: Ring
  readonly #counts: number[]
  #at: number

  constructor(ring: Ring, slot: number) {
    this.#ring = ring
    this.#counts = new Array<number>(ring.run).fill(0)
    this.#at = Math.floor(slot / ring.width)
  }

  add(count: number): void {
    this.#counts[this.#at % this.#ring.run]! += count
    this.sum += count
  }

  moveTo(slot: number): void {
    const { width, run } = this.#ring
    const at = Math.floor(slot / width)
    for (let next = Math.max(this.#at, at - run) + 1; next <= at; next += 1) {
      this.sum -= this.#counts[next % run]!
      this.#counts[next % run] = 0
    }
    this.#at = at
  }
}

interface Account {
  /** By the window's length. */
  readonly tokens: Map<number, Tokens>
  /** In the slot at hand; not in `tokens` yet. */
  taken: number
  block: (SlotBlock & { readonly probeUntilMs: number }) | undefined
}

/**
 * The accounts of one shard. Time is the caller's, and this clock never steps back: where the caller's does, it stands
 * still until that one moves on, so that what was granted never looks older than it is.
 */
export class SlotShard {
  readonly #slotMicros: number
  readonly #slotMs: number
  readonly #accounts = new Map<string, Account>()
  readonly #rings = new Map<number, Ring>()
  readonly #waits: boolean
  #aheadMicros = 0
  #lastMicros = 0
  #slot = 0
  /** The slot of the first question, and the first that grants. */
  #bornSlot: number | undefined
  #coldUntilSlot = 0

  /** @param waits whether it grants nothing until what was granted before it knew of anything is over */
  constructor(slotMs: number, waits = false) {
    this.#slotMs = slotMs
    this.#waits = waits
    this.#slotMicros = slotMs * 1_000
  }

  /** Milliseconds that are left of the slot that the last question was answered in. */
  get restMs(): number {
    return ((this.#slot + 1) * this.#slotMicros - this.#lastMicros) / 1_000
  }

  /** Grants what the windows leave of the slot at hand. `probeMs`: nothing but a probe of what is half open. */
  ask(questions: readonly SlotQuestion[], nowMs: number, probeMs?: number): SlotGrant[] {
    this.#moveTo(Math.floor(nowMs * 1_000))
    this.#bornSlot ??= this.#slot
    for (const { windows } of questions) for (const { windowMs } of windows) this.#learn(windowMs)
    const isCold = this.#slot < this.#coldUntilSlot
    return questions.map((question) => {
      const account = this.#account(question.account)
      if (account.block !== undefined && !account.block.halfOpen && nowMs >= account.block.untilMs)
        account.block = undefined
      const { block } = account
      const closed = block !== undefined
      let want = isCold ? 0 : question.want
      if (closed) {
        const probes = probeMs !== undefined && nowMs >= block.untilMs && nowMs >= block.probeUntilMs
        want = probes ? Math.min(1, want) : 0
      } else if (probeMs !== undefined) want = 0
      const granted = want === 0 ? 0 : Math.min(want, free(account, question.windows))
      account.taken += granted
      if (closed && granted > 0) account.block = { ...block, probeUntilMs: nowMs + probeMs! }
      const isBlocked = closed && nowMs < block.untilMs
      return {
        granted,
        blockedUntil: isBlocked ? block.untilMs : undefined,
        halfOpen: closed && !isBlocked,
      }
    })
  }

  /** Undefined lifts what stands. */
  block(name: string, block: SlotBlock | undefined): void {
    this.#account(name).block = block === undefined ? undefined : { ...block, probeUntilMs: 0 }
  }

  #moveTo(micros: number): void {
    if (micros + this.#aheadMicros < this.#lastMicros) this.#aheadMicros = this.#lastMicros - micros
    this.#lastMicros = micros + this.#aheadMicros
    const slot = Math.floor(this.#lastMicros / this.#slotMicros)
    if (slot === this.#slot) return
    this.#slot = slot
    for (const [name, account] of this.#accounts) {
      let sum = 0
      for (const tokens of account.tokens.values()) {
        if (account.taken > 0) tokens.add(account.taken)
        tokens.moveTo(slot)
        sum += tokens.sum
      }
      account.taken = 0
      if (sum === 0 && account.block === undefined) this.#accounts.delete(name)
    }
  }

  /** A window counts in every account from the first time that it is asked for in any. */
  #learn(windowMs: number): void {
    if (this.#rings.has(windowMs)) return
    const ring = ringOf(windowMs, this.#slotMs)
    this.#rings.set(windowMs, ring)
    // Long windows are for whoever has them on record; nobody waits an hour.
    if (this.#waits && ring.width === 1)
      this.#coldUntilSlot = Math.max(this.#coldUntilSlot, this.#bornSlot! + ring.run)
    for (const { tokens } of this.#accounts.values()) tokens.set(windowMs, new Tokens(ring, this.#slot))
  }

  #account(name: string): Account {
    const known = this.#accounts.get(name)
    if (known !== undefined) return known
    const tokens = new Map<number, Tokens>()
    for (const [windowMs, ring] of this.#rings) tokens.set(windowMs, new Tokens(ring, this.#slot))
    const account: Account = { tokens, taken: 0, block: undefined }
    this.#accounts.set(name, account)
    return account
  }
}

function free({ tokens, taken }: Account, windows: readonly SlotWindow[]): number {
  let least = Number.POSITIVE_INFINITY
  for (const { max, windowMs } of windows) least = Math.min(least, max - tokens.get(windowMs)!.sum)
  return Math.max(0, least - taken)
}
