import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { readArguments } from '../../src/cli/command.ts'
import { form, run } from '../../src/cli/simulate.ts'
import type { SluiceError } from '../../src/errors.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-simulate-'))
after(() => rmSync(folder, { recursive: true }))

/** The command with what it prints. */
async function simulate(...args: readonly string[]): Promise<{ code: number; out: string }> {
  const lines: string[] = []
  const io = {
    env: {},
    cwd: folder,
    colours: false,
    out: (text: string) => lines.push(text),
    err: () => undefined,
  }
  const code = await run(readArguments(form, args)!, io)
  return { code, out: lines.join('\n') }
}

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text)
  return name
}

const story = `name: small-war-story
seed: 47
start: 2026-11-21T06:00:00Z
duration: 3day
recipients: { count: 40 }
traffic:
  - { times: 47, over: 16h, to: everyone, channel: push, category: activity, actor: author-1 }
`

interface Run {
  readonly policy: string
  readonly [figure: string]: unknown
}

test('a runaway sender reaches a recipient 47 times without a policy, and at most 3 times a day and author with one', async () => {
  const { code, out } = await simulate(file('story.yaml', story), '--json')
  assert.equal(code, 0)
  const { scenario, seed, runs } = JSON.parse(out) as { scenario: string; seed: number; runs: readonly Run[] }
  assert.equal(scenario, 'small-war-story')
  assert.equal(seed, 47)
  const [unprotected, protectedRun] = runs as [Run, Run]
  assert.deepEqual(
    [unprotected.policy, unprotected.accepted, unprotected.delivered, unprotected.perAuthorPerDayMax],
    ['unprotected', 1880, 1880, 47],
  )
  assert.equal(protectedRun.accepted, 1880)
  assert.equal(protectedRun.merged, 1880)
  assert.equal(protectedRun.delivered, protectedRun.digests)
  assert.ok((protectedRun.perAuthorPerDayMax as number) <= 3)
  assert.deepEqual(Object.keys(protectedRun.delayMs as object), ['p50', 'p90', 'p99'])
})

test('the same seed gives the same run exactly, another seed another run', async () => {
  const name = file('again.yaml', story)
  const [first, second, other] = [
    await simulate(name, '--json'),
    await simulate(name, '--json'),
    await simulate(name, '--json', '--seed', '48'),
  ]
  assert.equal(first.out, second.out)
  assert.notEqual(first.out, other.out)
})

test('two policies are compared, and the page escapes their names', async () => {
  const drop = `version: 1\nlimits:\n  - { name: one, for: any, max: [1/day], over: drop }\n`
  const name = file('<b>.yaml', drop)
  const { out } = await simulate(
    file('compare.yaml', story),
    '--against',
    name,
    '--report',
    'page.html',
    '--json',
  )
  const { runs } = JSON.parse(out) as { runs: readonly Run[] }
  assert.deepEqual(
    runs.map((each) => each.policy),
    ['unprotected', 'built-in', '<b>.yaml'],
  )
  assert.equal(runs[2]?.perRecipientPerDayMax, 1)
  assert.deepEqual(runs[2]?.suppressed, { over_limit: 1880 - (runs[2]?.delivered as number) })
  const page = readFileSync(join(folder, 'page.html'), 'utf8')
  assert.ok(page.includes('&lt;b&gt;.yaml') && !page.includes('<b>.yaml'))
})

test('a range of ids names many accounts; none is called above its rate, and a blocked tenth carries nothing', async () => {
  const burst = `name: burst
duration: 2min
recipients: { count: 900 }
pools:
  sms: { provider: sandbox, accounts: [{ id: a01..a20, rate: 5/s }] }
phases:
  - { from: 0s, over: 2min, accounts: [a01..a02], allows: 1/day, retryAfter: "300" }
traffic:
  - { times: 1, to: everyone, channel: sms, category: security }
`
  const { out } = await simulate(file('burst.yaml', burst), '--json')
  const { runs } = JSON.parse(out) as { runs: readonly Run[] }
  for (const { delivered, lost, accounts, delayMs } of runs) {
    assert.deepEqual([delivered, lost], [900, 0])
    const { count, refused, fullestWindow } = accounts as Record<string, unknown>
    assert.deepEqual([count, refused], [20, 2])
    assert.deepEqual(fullestWindow, { calls: 5, max: 5, window: '5/s' })
    // Eighteen accounts carry 90 a second; what a blocked one had refused comes a retry later.
    const { p99 } = delayMs as { p99: number }
    assert.ok(p99 > 9_000 && p99 < 14_000, `${p99} ms`)
  }
})

test('a range is of accounts that the pools have', async () => {
  const text = `name: x
duration: 1min
recipients: { count: 1 }
pools:
  sms: { provider: sandbox, accounts: [{ id: a1..a3, rate: 5/s }] }
phases:
  - { from: 0s, over: 1min, accounts: [a3..a4], latency: 1s }
traffic:
  - { times: 1, channel: sms }
`
  await assert.rejects(simulate(file('range.yaml', text)), /"a4" is no account of the pools/)
})

const wrong: readonly (readonly [string, RegExp])[] = [
  ['name: x\n', /duration: is missing/],
  [
    story.replace('count: 40', 'count: 0'),
    /wrong\.yaml:5: recipients\.count: expected a whole number from 1/,
  ],
  [
    story.replace('channel: push', 'channel: fax'),
    /wrong\.yaml:7: traffic\[0\]\.channel: expected one of email/,
  ],
  [story.replace('over: 16h', 'over: 16 moons'), /traffic\[0\]\.over/],
  [story.replace('over: 16h', 'over: 9day'), /traffic\[0\]: lasts longer than the scenario/],
  [story.replace('times:', 'tmies:'), /traffic\[0\]\.tmies: is not known here/],
]
for (const [text, message] of wrong) {
  test(`a scenario is refused with its place: ${message.source}`, async () => {
    await assert.rejects(simulate(file('wrong.yaml', text)), (error: Error) => {
      assert.match(error.message, message)
      assert.equal((error as SluiceError).code, 'INVALID_SCENARIO')
      return true
    })
  })
}

const blocked = `name: small-cascade
duration: 4min
recipients: { count: 5000 }
pools:
  email:
    provider: sandbox
    accounts:
      - { id: a, rate: 20/s, allows: 190/10s, retryAfter: "30" }
      - { id: b, rate: 20/s, allows: 190/10s, retryAfter: "30" }
      - { id: c, rate: 20/s, allows: 190/10s, retryAfter: "30" }
      - { id: d, rate: 20/s, allows: 190/10s, retryAfter: "30" }
phases:
  - { from: 12s, over: 30s, accounts: [a], allows: 1/day, retryAfter: "30" }
traffic:
  - { times: 3024, over: 42s, evenly: true, to: someone, channel: email, category: security }
`

interface Accounts {
  readonly count: number
  readonly refused: number
  readonly deliveredPerSecond: { readonly before: number; readonly during: number; readonly after: number }
  readonly deadLetters: Readonly<Record<string, number>>
  readonly returned: number
}

test('a scenario with pools shows a cascade of failures without load shedding, and none with it', async () => {
  const { out } = await simulate(file('blocked.yaml', blocked), '--json', '--report', 'blocked.html')
  const { runs } = JSON.parse(out) as { runs: readonly (Run & { readonly accounts: Accounts })[] }
  const [without, withIt] = runs.map(({ accounts }) => accounts) as [Accounts, Accounts]
  assert.deepEqual(
    runs.map(({ accepted, delivered }) => [accepted, delivered]),
    [
      [3024, 3024],
      [3024, 3024],
    ],
    'nothing is lost either way',
  )
  assert.deepEqual([without.refused, without.count, without.deadLetters], [4, 4, {}])
  assert.equal(withIt.refused, 1, 'nobody else runs over')
  const { before, during } = withIt.deliveredPerSecond
  assert.ok(Math.abs(during / before - 0.75) < 0.03, `${during} of ${before} a second: a quarter less`)
  assert.ok(without.deliveredPerSecond.during < during / 2)
  assert.ok(withIt.deadLetters.shed! > 0)
  assert.equal(withIt.returned, withIt.deadLetters.shed)
  const page = readFileSync(join(folder, 'blocked.html'), 'utf8')
  for (const text of ['Messages a second', '4 of 4', '1 of 4', 'that came back'])
    assert.ok(page.includes(text), text)
})

test('a scenario without pools reports no accounts, and one without reactions no reactions', async () => {
  const { out } = await simulate(file('poolless.yaml', story), '--json')
  const { runs } = JSON.parse(out) as { runs: readonly Run[] }
  for (const field of ['accounts', 'opens', 'uninstalls'])
    assert.ok(
      runs.every((each) => !(field in each)),
      field,
    )
})

const wrongPools: readonly (readonly [string, RegExp])[] = [
  [
    blocked.replace('accounts: [a]', 'accounts: [z]'),
    /wrong\.yaml:13: phases\[0\]\.accounts\[0\]: "z" is no account/,
  ],
  [blocked.replace('provider: sandbox', 'provider: webhook'), /pools\.email/],
  [blocked.replace('channel: email', 'channel: push'), /traffic\[0\]\.channel: has no pool; pools has email/],
  [blocked.replace('over: 30s', 'over: 30min'), /phases\[0\]: lasts longer than the scenario/],
  [blocked.replace(/pools:.*phases:/s, 'phases:'), /phases\[0\]: needs pools/],
]
for (const [text, message] of wrongPools) {
  test(`a scenario with pools is refused with its place: ${message.source}`, async () => {
    await assert.rejects(simulate(file('wrong.yaml', text)), (error: Error) => {
      assert.match(error.message, message)
      return true
    })
  })
}

test('an unknown scenario name lists the built-in scenarios', async () => {
  await assert.rejects(simulate('war-stroy'), {
    code: 'BAD_USAGE',
    message:
      /no file "war-stroy", and of the scenarios only burst, cascade, hierarchy, quiet-blast, war-story/,
  })
})

test('without a scenario the built-in ones are listed, and a bare name finds them', async () => {
  const { out } = await simulate()
  for (const name of ['war-story', 'quiet-blast', 'hierarchy', 'cascade']) assert.ok(out.includes(name))
  const hierarchy = await simulate('hierarchy', '--json')
  const { runs } = JSON.parse(hierarchy.out) as { runs: readonly Run[] }
  assert.equal(runs[1]?.perRecipientPerDayMax, 5)
})
