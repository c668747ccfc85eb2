import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { epoch, someNotification, stillClock } from '../../src/conformance/store/sample.ts'
import { advance, type Notification } from '../../src/model.ts'
import type { FeedbackEvent } from '../../src/ports/feedback.ts'
import { seededChance } from '../../src/simulation/chance.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { synthetic, usualTruth } from '../advice/synthetic.ts'
import { temporaryFolder } from '../config/folder.ts'
import { type Ran, sluice } from './session.ts'

const header = 'frequency,people,engaged,churned'
const usual = [
  header,
  ...synthetic(usualTruth, [1, 2, 3, 4, 5, 6, 7, 8], 2_000, seededChance(1)).map(
    ({ frequency, people, engaged, churned }) => [frequency, people, engaged, churned].join(','),
  ),
].join('\n')

function advise(t: TestContext, text: string, ...args: readonly string[]): Promise<Ran> {
  return sluice(['advise', 'observations.csv', ...args], {
    cwd: temporaryFolder(t, { 'observations.csv': text }),
  })
}

test('the first line answers how many a week, how sure that is, and what today costs', async (t) => {
  const { code, out, err } = await advise(t, usual, '--today', '7')
  assert.deepEqual([code, err], [0, ''])
  const [first] = out.split('\n')
  assert.match(
    first!,
    /^5\.\d a week \(90 %: 5\.\d–\d(\.\d)?\)\. At 7, today's limit, engagement is \d+ % higher and churn \d+ % higher\.$/,
  )
  assert.match(out, /Who gets more is not random unless it was made so/)
  assert.match(out, /\n {5}8 {3}2,000 {2}/)
  assert.match(out, /In the policy:\n {2}max: \[[56]\/week\]/)
})

test('as JSON the advice has the fields of the contract', async (t) => {
  const { code, out } = await advise(t, usual, '--json')
  assert.equal(code, 0)
  const json = JSON.parse(out)
  assert.deepEqual(Object.keys(json).slice(0, 5), [
    'frequency',
    'interval',
    'engagement',
    'churn',
    'warnings',
  ])
  const { frequency, interval, engagement, churn, warnings } = json
  assert.ok(interval[0] < frequency && frequency < interval[1])
  assert.deepEqual(
    [Object.keys(engagement), Object.keys(churn)],
    [
      ['a', 'b'],
      ['c', 'd'],
    ],
  )
  assert.deepEqual(warnings, [])
  assert.equal((await advise(t, usual, '--json')).out, out, 'the same seed')
  assert.notEqual((await advise(t, usual, '--json', '--seed', '2')).out, out)
})

test('value and cost move the best frequency', async (t) => {
  const frequencyOf = async (...args: readonly string[]): Promise<number> =>
    JSON.parse((await advise(t, usual, '--json', ...args)).out).frequency
  const usualFrequency = await frequencyOf()
  assert.ok((await frequencyOf('--cost', '3')) < usualFrequency)
  assert.equal(await frequencyOf('--cost', '3', '--value', '3'), usualFrequency)
})

test('a limit of complaints that holds the frequency down is the constraint', async (t) => {
  const text = usual
    .split('\n')
    .map((line, index) =>
      index === 0 ? `${line},delivered,complaints` : `${line},50000,${index * index * 4}`,
    )
    .join('\n')
  const { constraint, frequency, complaints } = JSON.parse((await advise(t, text, '--json')).out)
  assert.deepEqual(constraint, { complaints: 0.001, frequency })
  assert.equal(complaints.bindsFrom, frequency)
  const free = JSON.parse((await advise(t, text, '--json', '--complaints', '2%')).out)
  assert.ok(free.frequency > frequency && free.constraint === undefined)
  assert.match(
    (await advise(t, text)).out,
    /The complaint limit of 0\.1 % binds from \d(\.\d)?, and holds the frequency down\./,
  )
})

test('too little data ends with 3 and the reason, as text and as JSON', async (t) => {
  const few = `${header}\n1,500,50,5\n2,100,20,2\n`
  const { code, out, err } = await advise(t, few)
  assert.deepEqual([code, out], [3, ''])
  assert.match(
    err,
    /no advice from these data:\n {2}advice needs 4 different frequencies with 200 people each; 1 of them is there/,
  )
  const asJson = await advise(t, few, '--json')
  assert.deepEqual([asJson.code, asJson.out], [3, ''])
  assert.equal(JSON.parse(asJson.err).error.code, 'NO_ADVICE')
})

test('a file that is not there or not valid, and an option that is no number, end with 2', async (t) => {
  assert.equal((await sluice(['advise', 'missing.csv'])).code, 2)
  const wrong = await advise(t, `${header}\n1,200,0.1,2`)
  assert.equal(wrong.code, 2)
  assert.match(
    wrong.err,
    /the observations are not valid\n {2}observations\.csv:2: engaged: .*counts, not rates/,
  )
  for (const args of [
    ['--value', '0'],
    ['--cost', 'much'],
    ['--complaints', '5'],
    ['--seed', 'x'],
    ['--today', '-1'],
  ])
    assert.equal((await advise(t, usual, ...args)).code, 2, args.join(' '))
})

test('the example of the guide gives the advice that the guide shows', async (t) => {
  const guide = readFileSync(new URL('../../../../docs/guides/frequency-advice.md', import.meta.url), 'utf8')
  const [, shown] = /```text\n([^`]*)\n```/.exec(guide)!
  const [, csv] = /```csv\n([^`]*)\n```/.exec(guide)!
  assert.equal((await advise(t, csv!, '--today', '7')).out, shown)
})

test('the page shows points and curves, benefit and complaints, each with a description and its table, and no folder', async (t) => {
  const text = usual
    .split('\n')
    .map((line, index) =>
      index === 0 ? `${line},delivered,complaints,segment` : `${line},50000,${index},<b>`,
    )
    .join('\n')
  const cwd = temporaryFolder(t, { 'observations.csv': text })
  const { code, out, err } = await sluice(
    ['advise', join(cwd, 'observations.csv'), '--today', '7', '--report', 'advice.html'],
    { cwd },
  )
  assert.deepEqual([code, err], [0, ''])
  assert.match(out, /The report is in advice\.html$/)
  const page = readFileSync(join(cwd, 'advice.html'), 'utf8')
  const pictures = page.match(/<figure>.*?<\/figure>/gs)!
  assert.equal(pictures.length, 4)
  for (const picture of pictures)
    assert.match(
      picture,
      /<svg[^>]*role="img">\n<title>[^<]+<\/title>\n<desc>[^<]+<\/desc>.*best 5\.3.*today 7.*<details><summary>Table/s,
    )
  assert.ok(!page.includes(cwd) && page.includes('From observations.csv'))
  const refused = await sluice(['advise', 'observations.csv', '--report', 'missing/a.html'], { cwd })
  assert.deepEqual([refused.code, refused.out], [2, ''])
})

test('the record of a store is advised on, and its observations are written', async (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': 'store: sqlite:sluice.db\n' })
  const store = createSqliteStore({ clock: stillClock(epoch), path: join(cwd, 'sluice.db') })
  const chance = seededChance(4)
  const at = epoch + 3 * 86_400_000
  const rows: Notification[] = []
  const events: FeedbackEvent[] = []
  for (let person = 0; person < 800; person += 1) {
    const frequency = 1 + (person % 4)
    for (let index = 0; index < frequency; index += 1) {
      const row = someNotification({ to: { id: `p${person}` }, category: 'marketing', status: 'queued' })
      rows.push(row)
      const report = (type: FeedbackEvent['type']) =>
        events.push({
          tenant: row.tenant,
          notificationId: row.id,
          key: type,
          type,
          channel: row.channel,
          category: row.category,
          at,
          keptAt: at,
        })
      if (index === 0 && chance() < 0.3 * Math.log(1 + frequency)) report('open')
      if (index === 0 && chance() < 0.02 * Math.exp(0.6 * frequency)) report('unsubscribe')
    }
  }
  const delivered = [
    { at: at - 1, status: 'sending' },
    { at, status: 'delivered' },
  ] as const
  await store.commit({ accept: rows })
  await store.commit({ moves: rows.map((row) => advance(row, delivered, { firedAt: at - 1, attempts: 1 })) })
  for (let first = 0; first < events.length; first += 1_000)
    await store.feedback.keep(events.slice(first, first + 1_000))
  await store.close()
  const until = new Date(epoch + 7 * 86_400_000).toISOString()
  const from = ['--from-record', '--category', 'marketing', '--to', until]
  const ran = await sluice(
    ['advise', ...from, '--observations', 'seen.csv', '--complaints', '100%', '--json'],
    { cwd },
  )
  assert.deepEqual([ran.code, ran.err], [0, ''])
  const csv = readFileSync(join(cwd, 'seen.csv'), 'utf8').trim().split('\n')
  assert.equal(csv[0], 'frequency,people,engaged,churned,delivered,complaints')
  assert.deepEqual(
    csv.slice(1).map((line) =>
      line
        .split(',')
        .filter((_, index) => [0, 1, 4].includes(index))
        .join(),
    ),
    ['1,200,200', '2,200,400', '3,200,600', '4,200,800'],
  )
  const again = await sluice(['advise', 'seen.csv', '--complaints', '100%', '--json'], { cwd })
  assert.equal(again.out, ran.out)
  for (const [args, message] of [
    [['--from-record'], /--from-record needs a category/],
    [['seen.csv', ...from], /a file and --from-record exclude each other/],
    [['seen.csv', '--category', 'marketing'], /--category goes with --from-record/],
    [[], /<observations\.csv> is missing, or --from-record/],
    [[...from, '--from', until], /--from must lie a week before --to/],
  ] as const) {
    const wrong = await sluice(['advise', ...args], { cwd })
    assert.equal(wrong.code, 2)
    assert.match(wrong.err, message)
  }
  const empty = await sluice(['advise', '--from-record', '--category', 'none', '--to', until], { cwd })
  assert.equal(empty.code, 3)
})
