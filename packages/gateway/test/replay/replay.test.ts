/** A replay repeats what happened under the policy that was in force, and says what another one would have made of it. */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { loadPolicy } from '../../src/config/policy-file.ts'
import { cellsOf } from '../../src/replay/cells.ts'
import { compareReplays, isSameWay } from '../../src/replay/compare.ts'
import { fidelityOf } from '../../src/replay/fidelity.ts'
import { htmlReport } from '../../src/replay/html.ts'
import { type Replayed, replay, requestsOf } from '../../src/replay/run.ts'
import { readTraffic, type Traffic, type TrafficLine } from '../../src/replay/traffic.ts'
import { policyOf, recordedTexts } from './recorded.ts'

const seed = Number(process.env.SLUICE_TEST_SEED ?? 17)
const policy = loadPolicy({ cwd: '/' }).compiled

describe(`a replay of recorded traffic (seed ${seed})`, () => {
  let texts: readonly string[] = []
  let traffic: Traffic
  let repeated: Replayed

  before(async () => {
    texts = await recordedTexts({
      seed,
      requests: 500,
      people: 18,
      days: 1,
      warmUpDays: 1,
      daysAfter: 1,
      policy,
      plain: true,
    })
    traffic = await readTraffic(texts)
    repeated = await replay({ traffic, policy })
  })

  test('repeats the decisions in the middle of a record, from what had left before', () => {
    const side = { name: 'same', policy, replayed: repeated }
    const { fidelity, happened, a, requests } = compareReplays({ traffic, a: side, b: side })
    // A digest that was open at the end took in what came behind the period.
    const edge = fidelity.differences.edge ?? 0
    assert.equal(fidelity.compared - fidelity.equal, edge, JSON.stringify(fidelity))
    assert.ok(fidelity.share >= 0.995, JSON.stringify(fidelity))
    assert.ok(requests > 100, `${requests} requests`)
    for (const kind of ['at_once', 'delayed', 'digest', 'dropped'] as const)
      assert.ok(happened.kinds[kind] > 0, `some are ${kind}`)
    assert.ok(Math.abs(a.messages - happened.messages) <= edge)
  })

  test('repeats them under pseudonyms, but for offsets after quiet hours, which it says', async () => {
    const options = { seed, requests: 200, people: 10, days: 1, policy }
    const pseudonymous = await readTraffic(await recordedTexts(options))
    const side = { name: 'same', policy, replayed: await replay({ traffic: pseudonymous, policy }) }
    const { fidelity } = compareReplays({ traffic: pseudonymous, a: side, b: side })
    assert.ok(fidelity.share >= 0.995, JSON.stringify(fidelity))
    assert.equal(fidelity.differences.unexplained ?? 0, 0, JSON.stringify(fidelity.examples))
  })

  test('explains a difference by what the record says of it', () => {
    const requests = requestsOf(traffic)
    const index = repeated.fates.findIndex((fate) => fate?.kind === 'at_once')
    const why = (patch: Partial<TrafficLine>): string | undefined => {
      const line = { ...requests[index]!, ...patch }
      const replayed = repeated.fates[index]!
      const options = { header: { ...traffic.header, to: '2027-01-01T00:00:00Z' }, policy, requests: [line] }
      const dropped = { kind: 'dropped', channel: line.channel } as const
      const reason = patch.reason === undefined ? {} : { reason: patch.reason }
      return fidelityOf({ ...options, happened: [{ ...dropped, ...reason }], replayed: [replayed] })
        .examples[0]?.why
    }
    assert.equal(why({ policyVersion: 'another' }), 'other_policy')
    assert.equal(why({ trouble: 'provider' }), 'provider')
    assert.equal(why({ trouble: 'operator' }), 'operator')
    assert.equal(why({ reason: 'opted_out' }), 'preferences')
    assert.equal(why({}), 'unexplained')
  })

  test('says what another policy would have made of it', async () => {
    const document = structuredClone(policy.document) as { limits: { name: string; max: unknown }[] }
    for (const limit of document.limits) if (limit.name === 'marketing-email') limit.max = '0/day'
    const next = policyOf(document)
    const b = await replay({ traffic, policy: next })
    const comparison = compareReplays({
      traffic,
      a: { name: 'old', policy, replayed: repeated },
      b: { name: 'new', policy: next, replayed: b },
    })
    const requests = requestsOf(traffic)
    const marketing = requests.filter(({ category }) => category === 'marketing')
    assert.ok(marketing.length > 10)
    for (const [index, { category, priority }] of requests.entries()) {
      if (category === 'marketing') assert.equal(b.fates[index]?.kind, 'dropped')
      if (priority === 'critical') assert.ok(isSameWay(repeated.fates[index], b.fates[index]))
    }
    const droppedBefore = marketing.filter(({ state }) => state === 'suppressed').length
    assert.equal(comparison.matrix.dropped.dropped >= droppedBefore, true)
    assert.equal(comparison.a.messagesByCategory.marketing! > 0, true)
    assert.equal(comparison.b.messagesByCategory.marketing, undefined)
    assert.ok(comparison.changed.byCategory.marketing! > 0)
    assert.equal(comparison.changed.byCategory.security, undefined)
    assert.ok(comparison.mostChanged.length > 0 && comparison.mostChanged.length <= 20)
    const limit = comparison.limits.find((each) => each.limit === 'marketing-email')
    assert.ok(limit !== undefined && limit.b > limit.a)

    for (const { a, b: then, requests: count, items } of comparison.cells) {
      assert.equal(count, comparison.matrix[a][then], `${a} ${then}`)
      assert.equal(items.length, Math.min(20, count))
      for (const { id } of items) {
        const index = requests.findIndex((line) => line.id === id)
        assert.deepEqual([repeated.fates[index]?.kind, b.fates[index]?.kind], [a, then])
      }
    }
    const all = comparison.cells.reduce((sum, { requests: count }) => sum + count, 0)
    assert.equal(all, requests.length)
    const dropped = comparison.cells.find(({ a, b: then }) => a === 'at_once' && then === 'dropped')!
    const [{ category, b: fate }] = dropped.items as [(typeof dropped.items)[number]]
    assert.deepEqual([category, fate.limit, fate.until], ['marketing', 'marketing-email', undefined])
    const wait = ({ at, sendAt }: TrafficLine, index: number): number =>
      (repeated.fates[index]?.leftAt ?? repeated.fates[index]?.dueAt ?? 0) - Date.parse(sendAt ?? at)
    const long = requests.filter((line, index) => wait(line, index) > 86_400_000)
    assert.equal(comparison.peopleOverDay.a, new Set(long.map(({ recipient }) => recipient)).size)

    const page = (share: number): string => {
      const fidelity = { ...comparison.fidelity, compared: 1_000_000, share }
      return htmlReport({ comparison: { ...comparison, fidelity }, expectations: [], timeZone: 'UTC' })
    }
    assert.ok(page(0.95).includes('<td class="moved"><a href="#cell-at_once-dropped">'))
    assert.ok(page(0.94).includes('<td class="grey"><a href="#cell-at_once-dropped">'), 'it means nothing')
    for (const [, name] of page(1).matchAll(/href="#([^"]+)"/g)) assert.ok(page(1).includes(`id="${name}"`))
  })

  test('needs what had left before: without the warm-up some decisions differ', async () => {
    const cold = { ...traffic, lines: traffic.lines.filter(({ warmUp }) => warmUp !== true) }
    const side = { name: 'cold', policy, replayed: await replay({ traffic: cold, policy }) }
    const { fidelity } = compareReplays({ traffic: cold, a: side, b: side })
    assert.ok(fidelity.equal < fidelity.compared)
  })

  test('lists at most twenty requests of a cell, those whose decision differs first', () => {
    const requests = Array.from({ length: 30 }, (_, index) => ({
      ...requestsOf(traffic)[0]!,
      id: `${index}`,
    }))
    const fates = requests.map(() => ({ kind: 'delayed', channel: 'email', dueAt: 0 }) as const)
    const isChanged = requests.map((_, index) => index === 29)
    const cells = cellsOf({ requests, a: fates, b: fates, isChanged })
    assert.deepEqual(
      cells.map(({ a, b, requests: count }) => [a, b, count]),
      [['delayed', 'delayed', 30]],
    )
    assert.deepEqual(
      cells[0]!.items.map(({ id }) => id),
      ['29', ...Array.from({ length: 19 }, (_, index) => `${index}`)],
    )
    assert.equal(cells[0]!.items[0]!.a.until, '1970-01-01T00:00:00.000Z')
  })
})
