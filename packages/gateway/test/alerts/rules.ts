/**
 * The alert rules with time compressed: every duration (`for`, ranges, seconds in expressions) is divided, so that an
 * hour of a rule passes in a minute. Thresholds of histograms stay, because their buckets do not scale.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse, stringify } from 'yaml'

export const root = fileURLToPath(new URL('../../../..', import.meta.url))
export const rulesFile = join(root, 'deploy/prometheus/sluice.rules.yaml')

export interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly for?: string
  readonly annotations?: { readonly runbook: string }
}

interface Group {
  readonly name: string
  readonly rules: readonly Rule[]
}

const groupsOf = (text: string): readonly Group[] => (parse(text) as { groups: readonly Group[] }).groups

export const rules: readonly Rule[] = groupsOf(readFileSync(rulesFile, 'utf8')).flatMap(
  (group) => group.rules,
)
export const alertNames: readonly string[] = rules.flatMap(({ alert }) => alert ?? [])

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Durations that expressions write as a number of seconds; the scaling fails where one is no longer there. */
const secondsIn: Readonly<Record<string, readonly [literal: string, seconds: number]>> = {
  SluiceQueueAges: ['> 60', 60],
  SluiceDeliveryLogBehind: ['> 300', 300],
  SluiceStoreFull: ['24 * 3600', 86_400],
}

/** A start of the process takes a second or two, however time is scaled: `for` of this alert is divided by 10. */
const slower: Readonly<Record<string, number>> = { SluiceDown: 10 }

function scaled(duration: string, divisor: number): string {
  const [, number, unit] = /^(\d+)([smhd])$/.exec(duration)!
  return `${Math.round((Number(number) * unitMs[unit!]!) / divisor)}ms`
}

function scaleRule(rule: Rule, divisor: number): Rule {
  let { expr } = rule
  const [literal, seconds] = secondsIn[rule.alert ?? ''] ?? []
  if (literal !== undefined) {
    if (!expr.includes(literal)) throw new Error(`${rule.alert} has no "${literal}" any more`)
    const number = literal.startsWith('>') ? '> ' : ''
    expr = expr.replace(literal, `${number}${seconds! / divisor}`)
  }
  expr = expr.replaceAll(/\[(\d+[smhd])\]/g, (_, range: string) => `[${scaled(range, divisor)}]`)
  return {
    ...rule,
    expr,
    ...(rule.for === undefined ? {} : { for: scaled(rule.for, slower[rule.alert!] ?? divisor) }),
  }
}

/** Returns the file of rules with all durations divided. */
export function scaledRules(divisor: number): string {
  const groups = groupsOf(readFileSync(rulesFile, 'utf8'))
  return stringify({
    groups: groups.map((group) => ({ ...group, rules: group.rules.map((rule) => scaleRule(rule, divisor)) })),
  })
}
