import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { seededChance } from '../../src/simulation/chance.ts'
import { fullestDays, reactionFigures } from '../../src/simulation/reactions.ts'
import { loadScenario } from '../../src/simulation/scenario.ts'
import { sluice } from '../cli/session.ts'
import { temporaryFolder } from '../config/folder.ts'

const hour = 3_600_000
const shipped = readFileSync(new URL('../../scenarios/war-story.yaml', import.meta.url), 'utf8')

function scenarioOf(t: TestContext, text: string) {
  return loadScenario('story.yaml', temporaryFolder(t, { 'story.yaml': text }))
}

interface Run {
  readonly delivered: number
  readonly opens: { readonly count: number; readonly share: number }
  readonly uninstalls: { readonly count: number; readonly share: number; readonly timesUsual: number }
}

test('the war story: opens fall from 20 % to 2 % and eight times as many uninstall without protection, hardly more with it', async (t) => {
  const people = 20
  const cwd = temporaryFolder(t, { 'story.yaml': shipped.replace('count: 10000', `count: ${people}`) })
  const { code, out, err } = await sluice(['simulate', 'story.yaml', '--json', '--report', 'out.html'], {
    cwd,
  })
  assert.equal(code, 0, err)
  const [unprotected, protectedRun] = (JSON.parse(out) as { runs: readonly Run[] }).runs as [Run, Run]
  const near = (actual: number, expected: number): void =>
    assert.ok(Math.abs(actual / expected - 1) < 0.05, `${actual} is not ${expected} within 5 %`)
  assert.equal(unprotected.delivered, 47 * people)
  near(unprotected.opens.share, 0.02)
  near(unprotected.opens.count, 47 * people * 0.02)
  near(unprotected.uninstalls.timesUsual, 8)
  assert.equal(protectedRun.delivered, 4 * people)
  assert.ok(protectedRun.opens.share > 0.12 && protectedRun.opens.share < 0.2)
  assert.ok(protectedRun.uninstalls.timesUsual > 1 && protectedRun.uninstalls.timesUsual < 1.15)
  const page = readFileSync(join(cwd, 'out.html'), 'utf8')
  for (const text of [
    '(8.0× the usual)',
    '(1.1× the usual)',
    'Opened, of the messages',
    'Uninstalled, of the people',
  ])
    assert.ok(page.includes(text), text)
})

test('whoever gets one message a day opens 20 % of them, and few uninstall', (t) => {
  const { reactions } = scenarioOf(t, shipped)
  const usual = reactionFigures(
    reactions!,
    Array.from({ length: 1_000 }, () => [0, 24 * hour, 48 * hour]),
    1_000,
  )
  assert.deepEqual(usual.opens?.count, 600)
  assert.ok(Math.abs(usual.opens!.share - 0.2) < 1e-9 && Math.abs(usual.uninstalls!.timesUsual - 1) < 1e-9)
})

test('recipients who got nothing uninstall a little less than those who got one message', (t) => {
  const { reactions } = scenarioOf(t, shipped)
  const { uninstalls, opens } = reactionFigures(reactions!, [], 100)
  assert.ok(uninstalls!.timesUsual > 0.9 && uninstalls!.timesUsual < 1)
  assert.deepEqual(opens, { count: 0, share: 0 })
})

test('the fullest rolling day of each message is that which trying all days gives', () => {
  const chance = seededChance(9)
  for (let round = 0; round < 200; round += 1) {
    const instants = Array.from(
      { length: 1 + Math.floor(chance() * 30) },
      () => Math.floor(chance() * 80) * hour,
    )
    const sorted = instants.toSorted((a, b) => a - b)
    const expected = sorted.map((at) => {
      const days = sorted
        .filter((start) => start <= at && at < start + 24 * hour)
        .map((start) => sorted.filter((other) => other >= start && other < start + 24 * hour).length)
      return Math.max(...days)
    })
    assert.deepEqual(fullestDays(instants), expected, `round ${round} of seed 9`)
  }
})

const refusals: readonly (readonly [string, RegExp])[] = [
  [
    shipped.replace('[20%, 2%]', '[20%, 0.1%]'),
    /reactions\.opens\.share: expected a share that falls, by less than/,
  ],
  [shipped.replace('[20%, 2%]', '[20%, 25%]'), /reactions\.opens\.share: expected a share that falls/],
  [
    shipped.replace('[0.1%, 0.8%]', '[0.8%, 0.1%]'),
    /reactions\.uninstalls\.share: expected a share that does not fall/,
  ],
  [shipped.replace('at: [1, 47]', 'at: [47, 1]'), /reactions\.opens\.at: expected the lower number first/],
  [shipped.replace('[20%, 2%]', '[20%, 0%]'), /reactions\.opens\.share: expected shares above 0%/],
  [shipped.replace('[20%, 2%]', 'twenty'), /reactions\.opens\.share: expected the share at each/],
  [shipped.replace('uninstalls:', 'uninstals:'), /reactions\.uninstals: is not known here/],
]
for (const [text, message] of refusals) {
  test(`reactions are refused with their place: ${message.source}`, (t) => {
    assert.throws(() => scenarioOf(t, text), { code: 'INVALID_SCENARIO', message })
  })
}
