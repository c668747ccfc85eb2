/**
 * Random policies and random traffic through the whole gateway in virtual time. The oracle knows only what the policy
 * says and what arrived: it counts every literal window one by one, and looks for an earlier instant at which the
 * limits, given the actual arrivals before it, would have admitted each message.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, densest, minute, type Sent, second, seeded, testSeed } from '../harness.ts'

interface Rule {
  readonly name: string
  readonly category: string | undefined
  readonly perActor: boolean
  readonly max: number
  readonly windowMs: number
}

const marginMs = 20
const runs = Number(process.env.SLUICE_RUNS ?? 40)
const categories = ['news', 'offers']
const people = ['ada', 'bob', 'eve']
const authors = ['kim', 'lee']

interface Posted {
  readonly id: string
  readonly recipient: string
  readonly category: string
  readonly actor: string
  readonly from: number
}

function randomRules(draw: () => number): readonly Rule[] {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(draw() * list.length)]!
  return Array.from({ length: 1 + Math.floor(draw() * 3) }, (_, index) => {
    const windows = 1 + Math.floor(draw() * 2)
    const category = pick([undefined, ...categories])
    const perActor = draw() < 0.3
    return Array.from({ length: windows }, () => ({
      name: `limit-${index}`,
      category,
      perActor,
      max: 1 + Math.floor(draw() * 4),
      windowMs: Math.ceil(draw() * 20) * 250,
    }))
  }).flat()
}

function policyOf(rules: readonly Rule[]): object {
  const names = [...new Set(rules.map((rule) => rule.name))]
  return {
    version: 1,
    maxDelay: '7d',
    limits: names.map((name) => {
      const own = rules.filter((rule) => rule.name === name)
      const [{ category, perActor }] = own as [Rule]
      return {
        name,
        for: category === undefined ? 'any' : { category },
        ...(perActor ? { per: ['recipient', 'actor'] } : {}),
        max: own.map((rule) => `${rule.max}/${rule.windowMs}ms`),
        over: 'delay',
      }
    }),
  }
}

/** The arrivals that a rule counts together with a message. */
function counted(rule: Rule, of: Posted, posted: readonly Posted[]): readonly Posted[] {
  return posted.filter(
    (other) =>
      other.recipient === of.recipient &&
      (rule.category === undefined || other.category === rule.category) &&
      (!rule.perActor || other.actor === of.actor),
  )
}

const countsFor = (rule: Rule, of: Posted): boolean =>
  rule.category === undefined || rule.category === of.category

test(`no literal window exceeds its limit and no message is late, under ${runs} random policies (seed ${testSeed})`, async () => {
  let lateMs = 0
  let messages = 0
  for (let run = 0; run < runs; run += 1) {
    const draw = seeded(testSeed * 1_000 + run)
    const rules = randomRules(draw)
    const harness = await createHarness({ policy: policyOf(rules), seed: testSeed + run })
    const posted = await postRandomly(harness, draw)
    await harness.runFor(20 * minute)
    const arrivals = new Map<string, number>(harness.sent().map((message: Sent) => [message.id, message.at]))
    assert.equal(arrivals.size, posted.length, `run ${run}: everything arrives`)
    for (const rule of rules) {
      for (const of of posted) {
        if (!countsFor(rule, of)) continue
        const instants = counted(rule, of, posted).map((other) => arrivals.get(other.id)!)
        assert.ok(
          densest(instants, rule.windowMs) <= rule.max,
          `run ${run}: ${rule.name} ${rule.max}/${rule.windowMs}ms`,
        )
      }
    }
    for (const of of posted) {
      messages += 1
      const late = arrivals.get(of.id)! - earliestGiven(of, posted, arrivals, rules)
      assert.ok(late <= 20, `run ${run}: ${of.id} is ${late} ms late`)
      lateMs = Math.max(lateMs, late)
    }
    await harness.check()
    await harness.stop()
  }
  console.log(`${messages} messages, at most ${lateMs} ms late`)
})

async function postRandomly(
  harness: Awaited<ReturnType<typeof createHarness>>,
  draw: () => number,
): Promise<Posted[]> {
  const posted: Posted[] = []
  const pick = (list: readonly string[]): string => list[Math.floor(draw() * list.length)]!
  for (let burst = 0; burst < 6; burst += 1) {
    for (let index = 0; index < 5; index += 1) {
      const [recipient, category, actor] = [pick(people), pick(categories), pick(authors)]
      const sendAt = draw() < 0.2 ? harness.clock.now() + Math.floor(draw() * 5) * second : undefined
      const { id, createdAt } = await harness.post({
        recipient,
        category,
        actor,
        ...(sendAt === undefined ? {} : { sendAt }),
      })
      posted.push({ id, recipient, category, actor, from: Math.max(createdAt, sendAt ?? 0) })
    }
    await harness.runFor(Math.floor(draw() * 4_000))
  }
  return posted
}

/**
 * The earliest instant at which every limit, with its margin, would have admitted it next to what had arrived before
 * it and what was accepted before it: a message may wait for those that were promised their instant earlier.
 */
function earliestGiven(
  of: Posted,
  posted: readonly Posted[],
  arrivals: ReadonlyMap<string, number>,
  rules: readonly Rule[],
): number {
  const arrived = arrivals.get(of.id)!
  const others = posted.filter(
    (other) =>
      other !== of && (arrivals.get(other.id)! < arrived || posted.indexOf(other) < posted.indexOf(of)),
  )
  const logs = rules
    .filter((rule) => countsFor(rule, of))
    .map((rule) => ({
      max: rule.max,
      windowMs: rule.windowMs + marginMs,
      instants: counted(rule, of, others).map((other) => arrivals.get(other.id)!),
    }))
  const admits = (t: number): boolean =>
    logs.every(
      ({ max, windowMs, instants }) =>
        densest([...instants, t], windowMs) <= max || densest(instants, windowMs) > max,
    )
  for (let t = of.from; t < arrived; t += 1) if (admits(t)) return t
  return arrived
}
