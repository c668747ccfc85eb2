/**
 * A scenario: who there is, and what applications send them in which stretch of time. Read from YAML and checked as
 * a configuration is: every mistake with its file, line and field.
 */
import { type Static, Type } from '@sinclair/typebox'
import { misfits, pathText } from '../config/check.ts'
import { Problems } from '../config/problems.ts'
import { readDuration } from '../config/quantity.ts'
import { readTextFile, shownFile } from '../config/source.ts'
import { parseYaml } from '../config/yaml-file.ts'
import { type Channel, channels, type Priority, priorities } from '../model.ts'

const duration = Type.Union(
  [Type.String({ pattern: '^\\s*\\d+\\s*[a-z]+\\s*$' }), Type.Integer({ minimum: 0 })],
  {
    expects: 'a duration such as 90min or 1day',
  },
)
const count = (maximum: number) =>
  Type.Integer({ minimum: 1, maximum, expects: `a whole number from 1 to ${maximum}` })
const word = Type.String({ minLength: 1, maxLength: 128, expects: 'a text' })
const oneOf = <T extends string>(values: readonly T[]) =>
  Type.Union(
    values.map((value) => Type.Literal(value)),
    { expects: `one of ${values.join(', ')}` },
  )

const trafficSchema = Type.Object(
  {
    times: count(1_000_000),
    from: Type.Optional(duration),
    over: Type.Optional(duration),
    to: Type.Optional(
      Type.Union([Type.Literal('everyone'), Type.Literal('someone')], { expects: 'everyone or someone' }),
    ),
    channel: oneOf(channels),
    category: Type.Optional(word),
    priority: Type.Optional(oneOf(priorities)),
    actor: Type.Optional(word),
    text: Type.Optional(Type.String({ maxLength: 2_000, expects: 'a text' })),
  },
  { additionalProperties: false, expects: 'one stream of traffic' },
)

const scenarioSchema = Type.Object(
  {
    name: word,
    description: Type.Optional(Type.String({ expects: 'a text' })),
    seed: Type.Optional(Type.Integer({ minimum: 0, expects: 'a whole number' })),
    start: Type.Optional(Type.String({ expects: 'an instant such as 2026-11-21T00:00:00Z' })),
    duration,
    recipients: Type.Object(
      {
        count: count(1_000_000),
        timeZones: Type.Optional(Type.Array(word, { minItems: 1, expects: 'a list of IANA time zones' })),
      },
      { additionalProperties: false, expects: 'count and timeZones' },
    ),
    traffic: Type.Array(trafficSchema, { minItems: 1, expects: 'a list of streams of traffic' }),
  },
  { additionalProperties: false, expects: 'a scenario' },
)

export interface Traffic {
  readonly times: number
  readonly fromMs: number
  readonly overMs: number
  readonly to: 'everyone' | 'someone'
  readonly channel: Channel
  readonly category: string
  readonly priority: Priority
  readonly actor: string | undefined
  readonly text: string
}

export interface Scenario {
  readonly name: string
  readonly description: string
  readonly seed: number
  readonly start: number
  readonly durationMs: number
  readonly recipients: { readonly count: number; readonly timeZones: readonly string[] }
  readonly traffic: readonly Traffic[]
}

/** @throws SluiceError `INVALID_SCENARIO`, with every mistake by line */
export function loadScenario(file: string, cwd: string): Scenario {
  const problems = new Problems()
  const shown = shownFile(file, cwd)
  const read = readTextFile(file)
  if (!read.ok) problems.add({ file: shown, path: '', message: read.message })
  const yaml = read.ok ? parseYaml(read.text) : undefined
  for (const { path, message, line } of yaml?.faults ?? []) {
    problems.add({ file: shown, path: pathText(path), message, ...(line === undefined ? {} : { line }) })
  }
  problems.throwIfAny('INVALID_SCENARIO')
  const fault = (path: readonly (string | number)[], message: string): void => {
    const line = yaml?.lineOf(path)
    problems.add({ file: shown, path: pathText(path), message, ...(line === undefined ? {} : { line }) })
  }
  for (const { path, message } of misfits(scenarioSchema, yaml?.value ?? {}, new Map())) fault(path, message)
  problems.throwIfAny('INVALID_SCENARIO')
  const document = yaml?.value as Static<typeof scenarioSchema>
  const start = document.start === undefined ? Date.UTC(2026, 10, 21) : Date.parse(document.start)
  if (Number.isNaN(start)) fault(['start'], 'expected an instant such as 2026-11-21T00:00:00Z')
  const msOf = (path: readonly (string | number)[], value: string | number): number => {
    try {
      return readDuration(value)
    } catch (error) {
      fault(path, (error as Error).message)
      return 0
    }
  }
  const durationMs = msOf(['duration'], document.duration)
  const traffic = document.traffic.map((each, index) => {
    const fromMs = msOf(['traffic', index, 'from'], each.from ?? 0)
    const overMs = msOf(['traffic', index, 'over'], each.over ?? 0)
    if (fromMs + overMs > durationMs) fault(['traffic', index], 'lasts longer than the scenario')
    return trafficOf(each as TrafficDocument, fromMs, overMs)
  })
  problems.throwIfAny('INVALID_SCENARIO')
  return {
    name: document.name,
    description: document.description ?? '',
    seed: document.seed ?? 1,
    start,
    durationMs,
    recipients: { count: document.recipients.count, timeZones: document.recipients.timeZones ?? ['UTC'] },
    traffic,
  }
}

type TrafficDocument = Omit<Static<typeof trafficSchema>, 'channel' | 'priority'> & {
  channel: Channel
  priority?: Priority
}

function trafficOf(each: TrafficDocument, fromMs: number, overMs: number): Traffic {
  return {
    times: each.times,
    fromMs,
    overMs,
    to: each.to ?? 'everyone',
    channel: each.channel,
    category: each.category ?? 'product',
    priority: each.priority ?? 'normal',
    actor: each.actor,
    text: each.text ?? 'Something happened.',
  }
}
