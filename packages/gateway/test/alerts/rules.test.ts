/** The compressed rules, with which `npm run check:alerts` runs, are the shipped ones with every duration divided. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { needs } from '../../../../scripts/services/needs.ts'
import { alertNames, type Rule, rules, scaledRules } from './rules.ts'
import { situations } from './situations.ts'

const compressed = (parse(scaledRules(60)) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
)

/** Durations in an expression, ms. */
const rangesOf = ({ expr }: Rule): readonly number[] =>
  [...expr.matchAll(/\[(\d+)(ms|[smhd])\]/g)].map(
    ([, number, unit]) =>
      Number(number) * { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[unit!]!,
  )

test('every range of the rules is divided by 60, and nothing else of a rule without durations changes', () => {
  assert.equal(compressed.length, rules.length)
  for (const [index, rule] of rules.entries()) {
    const other = compressed[index]!
    assert.deepEqual(
      rangesOf(other),
      rangesOf(rule).map((ms) => ms / 60),
      rule.expr,
    )
    assert.deepEqual({ ...other, expr: '', for: '' }, { ...rule, expr: '', for: '' })
    assert.equal(other.for === undefined, rule.for === undefined)
  }
  const expressionOf = (name: string) => compressed.find(({ alert }) => alert === name)!.expr
  assert.match(expressionOf('SluiceQueueAges'), /> 1$/)
  assert.match(expressionOf('SluiceStoreFull'), /\[360000ms\], 1440\)/)
})

test('every alert has a situation of check:alerts', () => {
  const caused = new Set(situations.map(({ alert }) => alert))
  assert.deepEqual(
    alertNames.filter((name) => !caused.has(name)),
    [],
  )
})

test('promtool finds the compressed rules valid', needs('promtool'), (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-rules-'))
  t.after(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'rules.yaml'), scaledRules(60))
  const { status, stdout, stderr } = spawnSync(
    process.env.SLUICE_TEST_PROMTOOL!,
    ['check', 'rules', join(folder, 'rules.yaml')],
    { encoding: 'utf8' },
  )
  assert.equal(status, 0, stdout + stderr)
})
