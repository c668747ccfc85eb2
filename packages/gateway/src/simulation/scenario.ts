/**
 * A scenario: its recipients, the traffic of its applications in each period, and optionally the accounts that carry
 * it and their failures. Read from YAML and checked like a configuration: every mistake with its file, line and
 * field.
 */
import { type Static, Type } from '@sinclair/typebox'
import { misfits } from '../config/check.ts'
import type { PoolConfig } from '../config/config.ts'
import type { PoolDocument } from '../config/pool-schema.ts'
import { type PoolsDocument, readPools } from '../config/pools.ts'
import { readDuration } from '../config/quantity.ts'
import { configSchema } from '../config/schema.ts'
import { Source } from '../config/source.ts'
import type { Path } from '../config/yaml-file.ts'
import { type Channel, channels, type Priority, priorities } from '../model.ts'
import type { AccountDocument } from '../providers/provider-config.ts'
import { sandbox } from '../providers/sandbox/config.ts'
import type { SandboxPhase } from '../sandbox/behaviour.ts'
import { type Reactions, reactionsSchema, readReactions } from './reactions.ts'

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

/** The most accounts that a range names. */
const rangeMax = 10_000

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
    evenly: Type.Optional(Type.Boolean({ expects: 'true or false' })),
    text: Type.Optional(Type.String({ maxLength: 2_000, expects: 'a text' })),
  },
  { additionalProperties: false, expects: 'one stream of traffic' },
)

const phaseSchema = Type.Object(
  {
    from: duration,
    over: duration,
    accounts: Type.Optional(Type.Array(word, { minItems: 1, expects: 'a list of ids of accounts' })),
    ...sandbox.terms,
  },
  { additionalProperties: false, expects: 'what accounts do for a while' },
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
    pools: configSchema.properties.pools,
    phases: Type.Optional(Type.Array(phaseSchema, { expects: 'a list of what accounts do for a while' })),
    reactions: Type.Optional(reactionsSchema),
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
  /** Sends at even intervals instead of at random instants. */
  readonly evenly: boolean
}

export interface Scenario {
  readonly name: string
  readonly description: string
  readonly seed: number
  readonly start: number
  readonly durationMs: number
  readonly recipients: { readonly count: number; readonly timeZones: readonly string[] }
  readonly traffic: readonly Traffic[]
  /** The sandbox accounts that carry it; absent: one provider without limits. */
  readonly pools: readonly PoolConfig[] | undefined
  readonly phases: readonly SandboxPhase[]
  /** How recipients react to what they get; absent: nothing is said about it. */
  readonly reactions: Reactions | undefined
}

/**
 * Reads and checks a scenario.
 *
 * @throws SluiceError `INVALID_SCENARIO`, with every mistake by line
 */
export function loadScenario(file: string, cwd: string): Scenario {
  const source = new Source({ path: file, env: {}, cwd })
  const { problems } = source
  problems.throwIfAny('INVALID_SCENARIO')
  for (const { path, message } of misfits(scenarioSchema, source.value, new Map()))
    source.fault(path, message)
  problems.throwIfAny('INVALID_SCENARIO')
  const document = source.value as Static<typeof scenarioSchema>
  const start = document.start === undefined ? Date.UTC(2026, 10, 21) : Date.parse(document.start)
  if (Number.isNaN(start)) source.fault(['start'], 'expected an instant such as 2026-11-21T00:00:00Z')
  const durationMs = msOf(['duration'], document.duration, source)
  const traffic = document.traffic.map((each, index) => {
    const path = ['traffic', index]
    const { fromMs, overMs } = stretchOf(each, path, durationMs, source)
    return trafficOf(each as TrafficDocument, fromMs, overMs)
  })
  const pools = poolsOf(document.pools, traffic, source)
  const phases = (document.phases ?? []).map((phase, index) =>
    phaseOf(phase, { path: ['phases', index], pools, durationMs, source }),
  )
  const reactions = document.reactions === undefined ? undefined : readReactions(document.reactions, source)
  problems.throwIfAny('INVALID_SCENARIO')
  return {
    name: document.name,
    description: document.description ?? '',
    seed: document.seed ?? 1,
    start,
    durationMs,
    recipients: { count: document.recipients.count, timeZones: document.recipients.timeZones ?? ['UTC'] },
    traffic,
    pools,
    phases,
    reactions,
  }
}

function msOf(path: Path, value: string | number, source: Source): number {
  try {
    return readDuration(value)
  } catch (error) {
    source.fault(path, (error as Error).message)
    return 0
  }
}

interface Stretch {
  readonly from?: string | number
  readonly over?: string | number
}

function stretchOf({ from = 0, over = 0 }: Stretch, path: Path, durationMs: number, source: Source) {
  const fromMs = msOf([...path, 'from'], from, source)
  const overMs = msOf([...path, 'over'], over, source)
  if (fromMs + overMs > durationMs) source.fault(path, 'lasts longer than the scenario')
  return { fromMs, overMs }
}

function poolsOf(
  document: PoolsDocument | undefined,
  traffic: readonly Traffic[],
  source: Source,
): readonly PoolConfig[] | undefined {
  if (document === undefined) return undefined
  const pools = readPools(withoutRanges(document), source).filter(
    ({ channel }) => document[channel] !== undefined,
  )
  for (const { channel, provider } of pools) {
    if (provider !== 'sandbox')
      source.fault(['pools', channel, 'provider'], 'expected sandbox: a simulation calls nobody else')
  }
  for (const [index, { channel }] of traffic.entries()) {
    if (document[channel] === undefined)
      source.fault(
        ['traffic', index, 'channel'],
        `has no pool; pools has ${Object.keys(document).join(', ')}`,
      )
  }
  return pools
}

/** Writes the accounts of ranges one by one: `a00..a19` stands for the twenty ids from `a00` to `a19`. */
function withoutRanges(document: PoolsDocument): PoolsDocument {
  const listed = (pool: PoolDocument): PoolDocument =>
    pool.accounts === undefined
      ? pool
      : {
          ...pool,
          accounts: pool.accounts.flatMap((account) => idsOf(account.id).map((id) => ({ ...account, id }))),
        }
  return Object.fromEntries(
    Object.entries(document).map(([channel, pools]) => [
      channel,
      Array.isArray(pools) ? pools.map(listed) : listed(pools as PoolDocument),
    ]),
  )
}

/** The ids that a text names: of a range its ids, else the text. A range ends with the most that a pool may have. */
function idsOf(text: string): readonly string[] {
  const [, prefix, from, again, to] = /^(.*?)(\d+)\.\.(.*?)(\d+)$/.exec(text) ?? []
  if (from === undefined || prefix !== again || from.length !== to!.length || from > to!) return [text]
  return Array.from(
    { length: Math.min(Number(to) - Number(from) + 1, rangeMax) },
    (_, index) => `${prefix}${String(Number(from) + index).padStart(from.length, '0')}`,
  )
}

type PhaseDocument = Required<Stretch> & { readonly accounts?: readonly string[] }

interface PhasePlace {
  readonly path: Path
  readonly pools: readonly PoolConfig[] | undefined
  readonly durationMs: number
  readonly source: Source
}

function phaseOf(document: PhaseDocument, { path, pools, durationMs, source }: PhasePlace): SandboxPhase {
  if (pools === undefined) source.fault(path, 'needs pools, whose accounts it is about')
  const { fromMs, overMs } = stretchOf(document, path, durationMs, source)
  const accounts = document.accounts?.flatMap(idsOf)
  const known = new Set((pools ?? []).flatMap((pool) => pool.accounts.map(({ account }) => account.id)))
  for (const [index, id] of (accounts ?? []).entries()) {
    if (pools !== undefined && !known.has(id))
      source.fault([...path, 'accounts', index], `"${id}" is no account of the pools`)
  }
  return {
    fromMs,
    toMs: fromMs + overMs,
    ...(accounts === undefined ? {} : { accounts }),
    behaviour: sandbox.options(document as unknown as AccountDocument, { channel: 'email', path, source }),
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
    evenly: each.evenly ?? false,
  }
}
