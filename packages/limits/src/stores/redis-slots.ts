/**
 * Account slots in Redis: a key a shard, one script, one call for all accounts of a question. The accounts that this
 * process has ever asked for on a shard, with their windows, are its roster; the server keeps it under a name, so
 * that a question carries no more than that name and a number for each account.
 */
import { checkOptions } from '../calls.ts'
import { LimitsError } from '../errors.ts'
import type { SlotCall, SlotStore, TimedGrant } from '../slot-leases.ts'
import {
  type ColdStart,
  coldStarts,
  ringOf,
  type SlotBlock,
  type SlotGrant,
  type SlotQuestion,
} from '../slots.ts'
import { msgpackReader } from './msgpack.ts'
import { isUnknownScript, type RedisClient, scriptRunner } from './redis-client.ts'
import { createDeadline } from './redis-deadline.ts'
import type { Bytes } from './redis-reply.ts'
import { script, scriptSha } from './redis-slots-script.ts'

export interface RedisSlotsOptions {
  /**
   * Stands before every key; a key is `<prefix>{<slotMs>:<shard>}`.
   *
   * @defaultValue 'sluice:slots:'
   */
  readonly prefix?: string
  /**
   * Over how many keys the accounts are spread, the same in every process. More than one spreads them over the nodes
   * of a cluster, at one call each.
   *
   * @defaultValue 1
   */
  readonly shards?: number
  /**
   * How long a call may take, ms. Tokens that are granted later are lost, which errs on the safe side.
   *
   * @defaultValue 50
   */
  readonly deadlineMs?: number
  /** Told of every call that Redis did not answer. */
  readonly onError?: (error: LimitsError) => void
  /**
   * Epoch milliseconds in place of the server's clock and of this process's monotonic one, for tests.
   *
   * @defaultValue the server's `TIME`, and `performance.now`
   */
  readonly now?: () => number
  /**
   * Slots that Redis does not know `grant` at once, or `wait` until windows of at most 128 slots are over: after
   * `FLUSHALL`, an eviction or a failover the tokens granted a moment ago are unknown. The same in every process.
   *
   * @defaultValue 'grant'
   */
  readonly coldStart?: ColdStart
}

/** The script reads a roster on its stack, which takes 8,000 values, three for each account. */
const accountsMax = 2_000
const dayMs = 86_400_000

/**
 * Account slots in Redis 6.2 or later, or Valkey, over the user's own client, which stays the user's to close.
 *
 * @throws LimitsError `INVALID_ARGUMENT` for a client that is not known, or options that make no sense
 */
export function redisSlots(client: RedisClient, options: RedisSlotsOptions = {}): SlotStore {
  checkOptions(options, 'prefix', 'shards', 'deadlineMs', 'onError', 'now', 'coldStart')
  const { prefix = 'sluice:slots:', shards = 1, deadlineMs = 50, onError, now } = options
  const { coldStart = 'grant' } = options
  if (!coldStarts.includes(coldStart)) refuse(`coldStart is one of ${coldStarts.join(', ')}`)
  if (typeof prefix !== 'string') refuse('prefix is a text')
  if (!Number.isInteger(shards) || shards < 1 || shards > 1_024)
    refuse(`shards is a whole number from 1 to 1024, not ${shards}`)
  if (now !== undefined && typeof now !== 'function')
    refuse('now is a function that returns epoch milliseconds')
  const run = scriptRunner(client, { script, scriptSha })
  const within = createDeadline(client, deadlineMs, onError)
  const monotonicMs = now ?? (() => performance.now())
  const clock = (): string => (now === undefined ? '' : String(Math.floor(now() * 1_000)))
  const waits = coldStart === 'wait' ? '1' : '0'
  const accountSets = new Map<string, AccountSet>()

  function send<T>(key: string, args: string[], read: (reply: Bytes) => T): Promise<T> {
    return within(run('hash', key, args), read, (cause) =>
      isUnknownScript(cause) ? run('text', key, args) : undefined,
    )
  }

  async function askShard(shard: number, call: SlotCall, questions: readonly SlotQuestion[]) {
    const { slotMs, probeMs } = call
    const key = `${prefix}{${slotMs}:${shard}}`
    const accountSet = accountSets.get(key) ?? new AccountSet(slotMs)
    accountSets.set(key, accountSet)
    const { id, places, text } = accountSet.include(questions)
    const args = [probeMs === undefined ? 'l' : 'p', String(slotMs * 1_000), clock(), id]
    args.push(wantsOf(questions, places), '', String(probeMs ?? 0), waits)
    const sentMs = monotonicMs()
    const read = (reply: Bytes) => (reply[0] === 0x3f ? undefined : readGrants(reply, sentMs))
    const answer = await send(key, args, read)
    if (answer !== undefined) return { answer, places }
    args[5] = text
    return { answer: (await send(key, args, read))!, places }
  }

  return {
    monotonicMs,
    async ask(call) {
      const groups = new Map<number, SlotQuestion[]>()
      for (const question of call.questions) {
        const shard = shardOf(question.account, shards)
        const group = groups.get(shard)
        if (group === undefined) groups.set(shard, [question])
        else group.push(question)
      }
      const grants = new Map<string, TimedGrant>()
      await Promise.all(
        Array.from(groups, async ([shard, questions]) => {
          const { answer, places } = await askShard(shard, call, questions)
          for (const { account } of questions) grants.set(account, answer(places.get(account)!))
        }),
      )
      return call.questions.map(({ account }) => grants.get(account)!)
    },
    async block(slotMs, account, block) {
      const key = `${prefix}{${slotMs}:${shardOf(account, shards)}}`
      await send(
        key,
        ['b', String(slotMs * 1_000), clock(), account, ...writeBlock(block), waits],
        () => undefined,
      )
    },
  }
}

function writeBlock(block: SlotBlock | undefined): [until: string, halfOpen: string, keepMs: string] {
  if (block === undefined) return ['0', '0', String(dayMs)]
  // A day behind its end, by this clock; the script keeps it longer where it is asked again.
  const keepMs = Math.max(0, block.untilMs - Date.now()) + dayMs
  return [String(Math.max(1, block.untilMs)), block.halfOpen ? '1' : '0', String(keepMs)]
}

/** The accounts of one shard that this process has asked for, each in its place. */
class AccountSet {
  readonly #slotMs: number
  #windows = new Map<string, SlotQuestion['windows']>()
  #named:
    | { readonly id: string; readonly places: ReadonlyMap<string, number>; readonly text: string }
    | undefined

  constructor(slotMs: number) {
    this.#slotMs = slotMs
  }

  include(questions: readonly SlotQuestion[]) {
    for (const { account, windows } of questions) {
      if (this.#windows.get(account) === windows) continue
      this.#windows.set(account, windows)
      this.#named = undefined
    }
    if (this.#windows.size > accountsMax) {
      // Accounts that are gone from the configuration leave at the latest now.
      this.#windows = new Map(questions.map(({ account, windows }) => [account, windows]))
      this.#named = undefined
      if (this.#windows.size > accountsMax)
        refuse(`${this.#windows.size} accounts of one shard were asked for at once: take more shards`)
    }
    this.#named ??= this.#name()
    return this.#named
  }

  #name() {
    const accounts = [...this.#windows.keys()]
    const lengths = new Set([...this.#windows.values()].flatMap((all) => all.map(({ windowMs }) => windowMs)))
    const rules = Array.from(lengths, (windowMs) => {
      const { width, run } = ringOf(windowMs, this.#slotMs)
      return [windowMs, width, run, accounts.map((account) => this.#maxOf(account, windowMs))]
    })
    const text = JSON.stringify([accounts, rules])
    const places = new Map(accounts.map((account, place) => [account, place]))
    return { id: fingerprint(text), places, text }
  }

  /** -1 where the account has no such window. */
  #maxOf(account: string, windowMs: number): number {
    const own = this.#windows.get(account)!.filter((window) => window.windowMs === windowMs)
    return own.length === 0 ? -1 : Math.min(...own.map(({ max }) => max))
  }
}

function wantsOf(questions: readonly SlotQuestion[], places: ReadonlyMap<string, number>): string {
  const codes = new Uint8Array(3 * places.size)
  for (const { account, want } of questions) {
    const at = 3 * places.get(account)!
    codes[at] = want >> 14
    codes[at + 1] = (want >> 7) & 127
    codes[at + 2] = want & 127
  }
  return String.fromCharCode(...codes)
}

/** Answers by place, when they are asked for. */
function readGrants(reply: Bytes, sentMs: number): (place: number) => TimedGrant {
  const reader = msgpackReader(reply)
  const endsAtMs = sentMs + reader.number() / 1_000
  const granted = reader.numbers()
  const news = reader.numbers()
  const closed = new Map<number, Pick<SlotGrant, 'blockedUntil' | 'halfOpen'>>()
  for (let at = 0; at < news.length; at += 3) {
    const isOver = news[at + 2] === 1
    closed.set(news[at]! - 1, { blockedUntil: isOver ? undefined : news[at + 1]!, halfOpen: isOver })
  }
  const open = { blockedUntil: undefined, halfOpen: false }
  return (place) => ({ granted: granted[place]!, endsAtMs, ...(closed.get(place) ?? open) })
}

function shardOf(account: string, shards: number): number {
  return shards === 1 ? 0 : Number.parseInt(fingerprint(account).slice(-8), 16) % shards
}

/** FNV-1a, 64 bits, in hexadecimal digits. */
function fingerprint(text: string): string {
  let hash = 0xcbf29ce484222325n
  for (let index = 0; index < text.length; index += 1) {
    hash = ((hash ^ BigInt(text.charCodeAt(index))) * 0x100000001b3n) & 0xffffffffffffffffn
  }
  return hash.toString(16).padStart(16, '0')
}

function refuse(reason: string): never {
  throw new LimitsError('INVALID_ARGUMENT', reason)
}
