/** `sluice replay`: the comparison as text and JSON, expectations, and files that do not fit. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { stringify } from 'yaml'
import { loadPolicy } from '../../src/config/policy-file.ts'
import { temporaryFolder } from '../config/folder.ts'
import { recordedTexts } from '../replay/recorded.ts'
import { sluice } from './session.ts'

const policy = loadPolicy({ cwd: '/' }).compiled

function newPolicy(): string {
  const document = structuredClone(policy.document) as { limits: { name: string; max: unknown }[] }
  for (const limit of document.limits)
    if (limit.name === 'marketing-email') Object.assign(limit, { max: '0/day', name: 'marketing-<b>' })
  return stringify(document)
}

test('replay compares what happened, the policy in force and the new one, and checks expectations', async (t) => {
  const texts = await recordedTexts({ seed: 3, requests: 100, people: 7, days: 1, policy })
  const cwd = temporaryFolder(t, {
    'traffic.ndjson': texts.join('\n'),
    'new.yaml': newPolicy(),
    'kept.yaml': 'expect: [{ unchanged: [critical, security] }, { waitAtMost: 7d }, { fewerAtMost: 50% }]',
    'broken.yaml': 'expect: [{ unchanged: [marketing] }, { fewerAtMost: 5%, category: marketing }]',
  })
  const args = ['replay', 'traffic.ndjson', '--policy', 'new.yaml']
  const { code, out, err } = await sluice([...args, '--expect', 'kept.yaml', '--report', 'out.html'], { cwd })
  assert.equal(code, 0, err)
  assert.match(out, /^100 requests for \d+ people, 2026-11-09T00:00:00.000Z to 2026-11-10/)
  assert.match(out, /messages fewer \(−/)
  assert.match(out, /of them marketing/)
  assert.match(out, /No security or critical message changes\./)
  assert.match(out, /Fidelity: 100\.0 % of the decisions are repeated \(100 of 100\)\./)
  assert.match(out, /what happened +in force [0-9a-f]{8} +new\.yaml/)
  assert.match(out, /marketing-<b> +\d+ +\d+/)
  assert.match(out, /Warning: The longest window of the new policy looks back/)
  assert.match(out, /✔ nothing of critical, security changes \(0 changed\)/)
  assert.ok(!out.includes(cwd), 'no paths')
  const html = readFileSync(join(cwd, 'out.html'), 'utf8')
  assert.ok(!html.includes(cwd), 'no paths')
  const drawings = html.match(/<svg[\s\S]*?<\/svg>/g) ?? []
  assert.equal(drawings.length, 4)
  for (const drawing of drawings)
    assert.match(drawing, /^<svg [^>]*role="img"[^>]*>\n<title id="[a-z-]+">[^<]+<\/title><desc id/)
  assert.equal(html.match(/<details>/g)?.length, 4, 'a table behind each picture')
  assert.match(html, /prefers-color-scheme: dark/)
  assert.ok(html.includes('new.yaml') && !html.includes('<b>'), 'names are escaped')

  const failed = await sluice([...args, '--expect', 'broken.yaml', '--json'], { cwd })
  assert.equal(failed.code, 4)
  const { expectations, a, b, fidelity } = JSON.parse(failed.out)
  assert.deepEqual(
    expectations.map(({ text, holds }: { text: string; holds: boolean }) => [text, holds]),
    [
      ['nothing of marketing changes', false],
      ['at most 5% fewer marketing messages', false],
    ],
  )
  assert.deepEqual([a.name, b.name], [`in force ${policy.version.slice(0, 8)}`, 'new.yaml'])
  assert.equal(fidelity.share, 1)

  const named = (limits: string) => `name: quiet & <i>\n${limits}`
  writeFileSync(join(cwd, 'named.yaml'), named(newPolicy()))
  writeFileSync(join(cwd, 'other.yaml'), named('limits: []'))
  const namedArgs = ['replay', 'traffic.ndjson', '--policy', 'named.yaml']
  const one = JSON.parse((await sluice([...namedArgs, '--report', 'named.html', '--json'], { cwd })).out)
  assert.equal(one.b.name, 'quiet & <i>', 'the name of the policy comes before that of its file')
  assert.equal(one.b.policyVersion, b.policyVersion, 'a name is no part of the version')
  const page = readFileSync(join(cwd, 'named.html'), 'utf8')
  assert.ok(page.includes('quiet &amp; &lt;i&gt;') && !page.includes('<i>'))
  const two = JSON.parse((await sluice([...namedArgs, '--against', 'other.yaml', '--json'], { cwd })).out)
  assert.deepEqual(
    [two.a, two.b].map(({ name }: { name: string }) => name),
    [two.a, two.b].map(({ policyVersion }) => `quiet & <i> ${policyVersion.slice(0, 8)}`),
    'two of one name are told apart',
  )

  const against = await sluice([...args, '--against', 'new.yaml', '--json'], { cwd })
  const reversed = JSON.parse(against.out)
  assert.equal(reversed.changed.total, 0, 'the same policy on both sides')
  assert.equal(reversed.fidelity.differences.other_policy, 100 - reversed.fidelity.equal)
})

test('replay refuses files that do not fit with exit code 2, and says where', async (t) => {
  const [header, line] = await recordedTexts({ seed: 3, requests: 3, people: 2, days: 1, policy })
  const cwd = temporaryFolder(t, {
    'policy.yaml': newPolicy(),
    'expect.yaml': 'expect: [{ waitAtMost: long }]',
  })
  const replayed = async (traffic: string, ...more: string[]) => {
    writeFileSync(join(cwd, 'traffic.ndjson'), traffic)
    return sluice(['replay', 'traffic.ndjson', '--policy', 'policy.yaml', ...more], { cwd })
  }
  for (const [traffic, message] of [
    ['', 'it is empty'],
    ['{}', 'its first line is not the header'],
    [`${header}\nnothing`, 'line 2 is no JSON'],
    [`${header}\n${line}\n{"at":1}`, 'line 3 is no request'],
  ] as const) {
    const { code, err } = await replayed(traffic)
    assert.equal(code, 2, traffic)
    assert.ok(err.includes(message), err)
  }
  const wrong = await replayed(`${header}`, '--expect', 'expect.yaml')
  assert.equal(wrong.code, 2)
  assert.match(wrong.err, /expect\.yaml:1: expect\[0\]\.waitAtMost/)
  for (const args of [
    ['replay'],
    ['replay', 'traffic.ndjson'],
    ['replay', 'nothing.ndjson', '--policy', 'policy.yaml'],
    ['replay', 'traffic.ndjson', '--policy', 'nothing.yaml'],
  ])
    assert.equal((await sluice(args, { cwd })).code, 2, args.join(' '))
})
