/**
 * Compares the limits of recipients in Redis with those in memory: the same random operations on both, and every answer
 * compared. A world has a record of its own, which the answers make; two processes take turns at its subjects in Redis,
 * and at times both sides are lost, or the rules change, and they are filled again from the record.
 */
import assert from 'node:assert/strict'
import { type ForbiddenInterval, type Limit, limit, type RestoredEntry } from '@sluice/limits'
import { seededRandom } from '@sluice/limits-conformance'
import { createMemoryState } from '../../../../src/adapters/state/memory.ts'
import { createRedisLimits } from '../../../../src/adapters/state/redis/redis-limits.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import type { LimitRequest, LimitState, Reservation, Subject } from '../../../../src/ports.ts'
import { createVirtualClock, type VirtualClock } from '../../../../src/simulation/clock.ts'

export interface DifferentialOptions {
  readonly seed: number
  readonly operations: number
  /** Opens the state of one process, with the keys of the world. */
  readonly open: (world: string, clock: VirtualClock) => RedisState
  /** Forgets what a world has in Redis of a subject. */
  readonly lose: (world: string, key: string) => Promise<void>
}

interface Facts {
  readonly entries: Map<string, RestoredEntry>
  readonly waitlist: Set<string>
  readonly fingerprints: Map<string, { readonly id: string; readonly at: number }>
}

const marginMs = 20
const second = 1_000
const dedupMs = 60 * second
const names = ['ada', 'bob', 'all']

/** Runs one world; returns the number of operations that were compared. */
export async function compareLimits(options: DifferentialOptions): Promise<number> {
  const { seed, operations, open, lose } = options
  const random = seededRandom(seed)
  const world = `w${seed}:`
  const clock = createVirtualClock(1_000_000)
  const subjects = names.map((key): Subject => ({ key, tenant: 'acme' }))
  const record = new Map<string, Facts>(
    names.map((key) => [key, { entries: new Map(), waitlist: new Set(), fingerprints: new Map() }]),
  )
  const factsOf = ({ key }: Subject): Facts => record.get(key)!
  const recover = (subject: Subject) => {
    const { entries, waitlist, fingerprints } = factsOf(subject)
    return {
      entries: [...entries.values()],
      waitlist: [...waitlist],
      fingerprints: Array.from(fingerprints, ([fingerprint, held]) => ({ fingerprint, ...held })),
    }
  }
  const openMemory = () => createMemoryState({ clock, marginMs, recover })
  let memory = openMemory()
  let rulesName = 0
  const fleet = [1, 2].map((member) =>
    createRedisLimits({
      redis: open(world, clock),
      clock,
      member: `m${member}`,
      marginMs,
      recover,
      rulesName: () => `r${rulesName}`,
    }),
  )
  const kinds = limitsOf(random)
  /** Ids that hold or held an instant, with their limits; the newest last. */
  const known: {
    readonly id: string
    readonly subjects: readonly Subject[]
    readonly rules: readonly Limit[]
  }[] = []
  let serial = 0
  const newId = (): string => {
    serial += 1
    return String(serial).padStart(8, '0')
  }

  /** Asks both sides the same, and compares the answers. */
  async function both<T>(
    name: string,
    question: (state: LimitState) => Promise<T>,
    redis = random.pick(fleet),
  ): Promise<T> {
    const expected = await question(memory)
    const answer = await question(redis)
    assert.deepEqual(plain(answer), plain(expected), `${name}, seed ${seed}, at ${clock.now()}`)
    return answer
  }

  function terms(): Partial<LimitRequest> {
    const now = clock.now()
    const forbidden: ForbiddenInterval[] = [
      { from: now + random.below(3_000), to: now + 3_000 + random.below(9_000) },
    ]
    return {
      ...(random.once(4) ? { notBefore: now + random.below(8_000) } : {}),
      ...(random.once(5) ? { forbidden } : {}),
      ...(random.once(6) ? { horizonMs: random.pick([0, 500, 20_000]) } : {}),
      ...(random.once(5) ? { waited: true } : {}),
    }
  }

  function keep(
    { subject, id, rules }: LimitRequest,
    { at, held, fired }: Pick<Reservation, 'at' | 'held' | 'fired'>,
  ) {
    const { entries, waitlist } = factsOf(subject)
    if (!held) return
    waitlist.delete(id)
    if (entries.has(id) && !fired) return
    entries.set(id, { id, at, fired, streams: rules.map(({ stream }) => stream) })
  }

  async function reserve(): Promise<void> {
    const requests = Array.from({ length: random.between(1, 3) }, (): LimitRequest => {
      const waiting = [...factsOf(subjects[0]!).waitlist]
      const again = random.once(8) ? random.pick(known.length > 0 ? known : [undefined]) : undefined
      if (again !== undefined)
        return { subject: again.subjects[0]!, id: again.id, rules: again.rules, ...terms(), waited: true }
      if (waiting.length > 0 && random.once(4))
        return { subject: subjects[0]!, id: random.pick(waiting), rules: random.pick(kinds), ...terms() }
      return { subject: random.pick(subjects), id: newId(), rules: random.pick(kinds), ...terms() }
    })
    const places = await both('reserve', (state) => state.reserve(requests))
    for (const [index, place] of places.entries()) {
      const request = requests[index]!
      keep(request, place)
      if (place.held && !known.some(({ id }) => id === request.id))
        known.push({ id: request.id, subjects: [request.subject], rules: request.rules })
    }
    known.splice(0, known.length - 24)
  }

  /** Reserves one instant in two subjects, as the stages do. */
  async function reserveTogether(): Promise<void> {
    const id = newId()
    const rules = random.pick(kinds.filter((each) => each.every(({ over }) => over !== 'refuse')))
    const own = [subjects[0]!, subjects[2]!]
    let notBefore = clock.now()
    for (let round = 0; round < 40; round += 1) {
      const requests = own.map((subject): LimitRequest => ({ subject, id, rules, notBefore, waited: true }))
      const places = await both('reserve together', (state) => state.reserve(requests))
      if (places.some(({ held, at }) => !held || at === Number.POSITIVE_INFINITY)) break
      const at = Math.max(...places.map((place) => place.at))
      if (places.every((place) => place.at === at)) {
        for (const [index, place] of places.entries()) keep(requests[index]!, place)
        known.push({ id, subjects: own, rules })
        return
      }
      await free(requests)
      notBefore = at
    }
    await free(own.map((subject) => ({ subject, id })))
  }

  /** Cancels, and resumes what is paused. */
  async function free(
    requests: readonly { readonly subject: Subject; readonly id: string }[],
  ): Promise<void> {
    const redis = random.pick(fleet)
    const freed = await both('cancel', (state) => state.cancel(requests), redis)
    for (const { subject, id } of requests) {
      factsOf(subject).entries.delete(id)
      factsOf(subject).waitlist.delete(id)
    }
    await both('resume', (state) => state.resume(freed), redis)
  }

  async function fire(): Promise<void> {
    const due = known.filter(
      ({ id, subjects: [subject] }) => (factsOf(subject!).entries.get(id)?.at ?? 0) <= clock.now(),
    )
    const each = random.once(5) || due.length === 0 ? pickKnown() : random.pick(due)
    if (each === undefined) return
    const { notBefore, forbidden } = terms()
    const requests = each.subjects.map(
      (subject): LimitRequest => ({
        subject,
        id: each.id,
        rules: each.rules,
        ...(notBefore === undefined ? {} : { notBefore }),
        ...(forbidden === undefined ? {} : { forbidden }),
      }),
    )
    const redis = random.pick(fleet)
    const answers = await both('fire', (state) => state.fire(requests), redis)
    for (const [index, { at, fired, freed }] of answers.entries()) {
      const { subject, rules } = requests[index]!
      const { entries } = factsOf(subject)
      if (at === Number.POSITIVE_INFINITY) entries.delete(each.id)
      else entries.set(each.id, { id: each.id, at, fired, streams: rules.map(({ stream }) => stream) })
      if (freed !== undefined) await both('resume', (state) => state.resume([freed]), redis)
    }
  }

  const pickKnown = () => (known.length === 0 ? undefined : random.pick(known))

  async function force(): Promise<void> {
    const operation = random.once(3) ? 'recount' : 'force'
    const at = clock.now() + (operation === 'force' && random.once(3) ? random.below(2_000) : 0)
    const request = { subject: random.pick(subjects), id: newId(), rules: random.pick(kinds), at }
    factsOf(request.subject).entries.set(request.id, {
      id: request.id,
      at,
      fired: true,
      streams: request.rules.map(({ stream }) => stream),
    })
    // Before that the subject is filled on both sides, or on neither.
    await both('waiting', (state) => state.waiting(request.subject))
    await both(operation, (state) => state[operation]([request]))
  }

  async function cancel(): Promise<void> {
    const each = pickKnown()
    if (each === undefined) return
    if (!random.once(3)) return free(each.subjects.map((subject) => ({ subject, id: each.id })))
    const after = clock.now() - random.pick([-1, 0, 500, 4_000, 2_000_000])
    const redis = random.pick(fleet)
    const [subject] = each.subjects
    const request = { subject: subject!, id: each.id, unlessFired: { after, rules: each.rules } }
    const freed = await both('cancel unless fired', (state) => state.cancel([request]), redis)
    const { entries, waitlist } = factsOf(subject!)
    const entry = entries.get(each.id)
    if (entry?.fired !== true || entry.at <= after) {
      entries.delete(each.id)
      waitlist.delete(each.id)
    }
    await both('resume', (state) => state.resume(freed), redis)
  }

  async function advance(): Promise<void> {
    const each = pickKnown()
    if (each === undefined) return
    const before = factsOf(each.subjects[0]!).entries.get(each.id)
    const promisedAt = random.once(3) && before !== undefined ? before.at - random.below(2_000) : undefined
    const requests = each.subjects.map(
      (subject): LimitRequest => ({
        subject,
        id: each.id,
        rules: each.rules.map((rule) => (rule.over === 'refuse' ? { ...rule, over: 'delay' } : rule)),
        ...(promisedAt === undefined ? {} : { promisedAt }),
      }),
    )
    const redis = random.pick(fleet)
    const advanced = await both('advance', (state) => state.advance(requests), redis)
    if (advanced === undefined) return
    for (const { subject } of requests) {
      const { entries } = factsOf(subject)
      const entry = entries.get(each.id)
      if (entry !== undefined) entries.set(each.id, { ...entry, at: advanced.at })
    }
    await both('resume', (state) => state.resume(advanced.freed), redis)
  }

  async function list(): Promise<void> {
    const [subject] = subjects
    const { waitlist } = factsOf(subject!)
    const id = newId()
    waitlist.add(id)
    await both('enlist', (state) => state.enlist([{ subject: subject!, id }]))
    if (random.once(2)) return
    const gone = random.pick([...waitlist])
    waitlist.delete(gone)
    await both('delist', (state) => state.delist([{ subject: subject!, id: gone }]))
  }

  async function adopt(): Promise<void> {
    const each = pickKnown()
    if (each === undefined || each.rules.length === 0) return
    const { id, rules } = each
    const [subject] = each.subjects
    const at = clock.now() + random.below(20_000)
    const { entries } = factsOf(subject!)
    const held = entries.get(id)
    const keepsLater = random.once(2)
    await both('adopt', (state) => state.adopt([{ subject: subject!, id, rules, at }], { keepsLater }))
    const isKept = keepsLater && held !== undefined && held.at >= at && held.at > clock.now()
    if (held?.fired !== true && !isKept)
      entries.set(id, { id, at, fired: false, streams: rules.map(({ stream }) => stream) })
  }

  async function queueBehind(): Promise<void> {
    const subject = random.pick(subjects)
    const redis = random.pick(fleet)
    const ids = (await both('waiting', (state) => state.waiting(subject))).filter(() => !random.once(4))
    await both('queue behind', (state) => state.queueBehind(subject, ids), redis)
    const request = { subject, id: newId(), rules: random.pick(kinds), ...terms() }
    const [seen] = await both('preview behind', (state) => state.preview([request]))
    const [place] = await both('reserve behind', (state) => state.reserve([request]))
    if (request.rules.length > 0) assert.equal(seen!.at, place!.at)
    keep(request, place!)
    if (place!.held) known.push({ id: request.id, subjects: [subject], rules: request.rules })
    await both('queue behind none', (state) => state.queueBehind(subject, []), redis)
  }

  async function fingerprint(): Promise<void> {
    const subject = random.pick(subjects)
    const request = { subject, fingerprint: random.pick(['f', 'g', 'h']), id: random.pick(['1', '2', '3']) }
    const { fingerprints } = factsOf(subject)
    if (random.once(4)) {
      await both('release fingerprint', (state) => state.releaseFingerprints([request]))
      if (fingerprints.get(request.fingerprint)?.id === request.id) fingerprints.delete(request.fingerprint)
      return
    }
    const dry = random.once(4)
    const [held] = await both('fingerprint', (state) =>
      state.holdFingerprints([{ ...request, windowMs: dedupMs, dry }]),
    )
    if (held === true && !dry) fingerprints.set(request.fingerprint, { id: request.id, at: clock.now() })
  }

  async function look(): Promise<void> {
    const subject = random.pick(subjects)
    await both('waiting', (state) => state.waiting(subject))
    const request = { subject, id: newId(), rules: random.pick(kinds), ...terms() }
    await both('preview', (state) => state.preview([request]))
  }

  async function loseOrRenew(): Promise<void> {
    if (random.once(2)) {
      rulesName += 1
      memory.renew()
      for (const state of fleet) state.renew()
      return
    }
    memory = openMemory()
    for (const { key } of subjects) await lose(world, key)
  }

  let compared = 0
  for (; compared < operations; compared += 1) {
    const dice = random.below(100)
    if (dice < 24) await reserve()
    else if (dice < 28) await reserveTogether()
    else if (dice < 46) await fire()
    else if (dice < 50) await force()
    else if (dice < 56) await cancel()
    else if (dice < 63) await advance()
    else if (dice < 67) await list()
    else if (dice < 69) await adopt()
    else if (dice < 72) await queueBehind()
    else if (dice < 77) await fingerprint()
    else if (dice < 83) await look()
    else if (dice < 98)
      await clock.runUntil(
        clock.now() + random.pick([0, 1, 19, 20, 300, 1_000, 4_321, 11_000, random.below(60_000)]),
      )
    else await loseOrRenew()
  }
  for (const { key } of subjects) await lose(world, key)
  for (const state of fleet) await state.close()
  return compared
}

/** Answers as JSON has them; rows of limits with them. */
function plain(answer: unknown): unknown {
  return JSON.parse(
    JSON.stringify(answer ?? null, (_, value: unknown) =>
      value === Number.POSITIVE_INFINITY ? 'never' : value,
    ),
  )
}

/** Some kinds of notifications, each with its limits. */
function limitsOf(random: ReturnType<typeof seededRandom>): readonly (readonly Limit[])[] {
  const windows = () => `${random.pick([1, 2, 3, 10])}/${random.pick(['300ms', '1s', '7s', '40s'])}`
  const some = (stream: string, index: number) =>
    limit(`${stream}${index}`, windows(), { stream, over: random.once(6) ? 'refuse' : 'delay' })
  const all = some('all', 0)
  const delayed = limit('delayed', windows(), { stream: 'all' })
  return [[all], [all, some('marketing', 0)], [some('news', 0), some('marketing', 1)], [delayed], []]
}
