/**
 * Runs a scenario: the whole gateway on a virtual clock, with a store in memory, chance from the seed, and the oracle
 * as its only provider, or the sandbox with the accounts of the scenario. The same scenario, policy and seed give the
 * same run.
 */
import type { Config, PolicyConfig } from '../config/config.ts'
import { createGateway, type Gateway, virtualParts } from '../gateway.ts'
import type { Draft, RecipientFields } from '../model.ts'
import { statuses } from '../model.ts'
import type { Templates } from '../ports.ts'
import type { Caller } from '../stages.ts'
import { type AccountFigures, createAccountOracle } from './account-oracle.ts'
import { seededChance } from './chance.ts'
import { createVirtualClock, type VirtualClock } from './clock.ts'
import { createOracle, type Figures } from './oracle.ts'
import { type ReactionFigures, reactionFigures } from './reactions.ts'
import type { Scenario, Traffic } from './scenario.ts'
import { unlimitedConfig } from './unlimited-config.ts'

export interface RunOptions {
  readonly scenario: Scenario
  readonly policy: PolicyConfig
  /** Name of the run in the comparison. */
  readonly name: string
  readonly seed: number
  /** True when pools shed nothing. */
  readonly unprotected?: boolean
  /** Reports the share of the scenario that has passed, from 0 to 1. */
  readonly onProgress?: (share: number) => void
}

export interface RunResult extends Figures {
  readonly policy: string
  readonly accepted: number
  /** Accepted notifications and digests that are in no state on record at the end. */
  readonly lost: number
  /** Notifications that still wait when the scenario ends. */
  readonly waiting: number
  /** Figures of the accounts, where the scenario has pools. */
  readonly accounts?: AccountFigures
  /** The reactions of the recipients, where the scenario says how they react. */
  readonly reactions?: ReactionFigures
}

interface Post {
  readonly at: number
  readonly serial: number
  readonly traffic: Traffic
}

const caller: Caller = { tenant: 'default', module: 'default' }
/** Drafts of one call, like a batch from an application. */
const batchMax = 500

export async function runScenario(options: RunOptions): Promise<RunResult> {
  const { scenario } = options
  const chance = seededChance(options.seed)
  const clock = createVirtualClock(scenario.start)
  const oracle = createOracle({ clock, ...scenario })
  const { pools, phases } = scenario
  const accounts = createAccountOracle({ clock, ...scenario })
  const gateway = await createGateway(configWith(options), {
    clock,
    ...virtualParts(chance),
    ...(pools === undefined
      ? { providers: [oracle.provider] }
      : {
          sandbox: {
            phases,
            script: ({ message, account }) => {
              accounts.called(account)
              return oracle.hear(message)
            },
          },
        }),
    templates: wordless,
  })
  gateway.ledger.subscribe(oracle.observe)
  gateway.ledger.subscribe(accounts.observe)
  await gateway.startStages()
  // Traffic has a generator of its own, so that every policy meets the same traffic.
  const draw = seededChance(options.seed ^ 0x5eed)
  const people = peopleOf(scenario)
  let accepted = 0
  for (const post of postsOf(scenario, draw)) {
    await clock.runUntil(post.at)
    const to = post.traffic.to === 'everyone' ? people : [people[Math.floor(draw() * people.length)]!]
    for (let first = 0; first < to.length; first += batchMax) {
      const drafts = to.slice(first, first + batchMax).map((recipient) => draftOf(post, recipient))
      accepted += await admit(gateway, clock, drafts)
    }
    options.onProgress?.((post.at - scenario.start) / scenario.durationMs)
  }
  await clock.runUntil(scenario.start + scenario.durationMs)
  const counts = gateway.ledger.counts()
  const figures = oracle.figures()
  const waiting = counts.scheduled + counts.digesting + counts.queued + counts.dead
  const known = statuses.reduce((sum, status) => sum + counts[status], 0)
  const lost = accepted + figures.digests - known
  if (lost < 0) {
    throw new Error(
      `${accepted} were accepted and ${figures.digests} digests made, but ${known} are on record`,
    )
  }
  const stopping = gateway.stop()
  await clock.settle()
  await stopping
  const carried = pools === undefined ? {} : { accounts: accounts.figures(gateway.sandbox) }
  const { reactions, recipients } = scenario
  const reacted =
    reactions === undefined
      ? {}
      : { reactions: reactionFigures(reactions, oracle.arrivals(), recipients.count) }
  return { policy: options.name, accepted, lost, waiting, ...figures, ...carried, ...reacted }
}

/** Renders nothing: a message's text has no part in when it may leave, and rendering took a quarter of the time. */
const wordless: Templates = { has: () => true, hasSubject: () => true, render: () => ({ text: '' }) }

/** The gateway answers when its commit is written, which is when virtual time comes to rest. */
async function admit(gateway: Gateway, clock: VirtualClock, drafts: readonly Draft[]): Promise<number> {
  let open = true
  const admitting = gateway.gate.admit({ caller, drafts }).finally(() => {
    open = false
  })
  while (open) await clock.settle()
  return (await admitting).length
}

function configWith({ policy, scenario, unprotected = false }: RunOptions): Config {
  const config = unlimitedConfig(policy)
  if (scenario.pools === undefined) return config
  return {
    ...config,
    pools: scenario.pools.map((pool) => ({ ...pool, shedding: pool.shedding && !unprotected })),
  }
}

function peopleOf({ recipients }: Scenario): readonly RecipientFields[] {
  return Array.from({ length: recipients.count }, (_, index) => {
    const id = `person-${index + 1}`
    return {
      id,
      email: `${id}@example.com`,
      phone: `+39${String(3_000_000_000 + index)}`,
      pushToken: id,
      telegramChatId: id,
      slackChannel: id,
      webhookUrl: `https://example.com/${id}`,
      timeZone: recipients.timeZones[index % recipients.timeZones.length]!,
    }
  })
}

/** Yields every post of the scenario, in the order of time. */
function postsOf(scenario: Scenario, draw: () => number): readonly Post[] {
  return scenario.traffic
    .flatMap((traffic) =>
      Array.from({ length: traffic.times }, (_, index) => ({
        at:
          scenario.start +
          traffic.fromMs +
          Math.floor((traffic.evenly ? index / traffic.times : draw()) * traffic.overMs),
        traffic,
      })),
    )
    .sort((a, b) => a.at - b.at)
    .map((post, serial) => ({ ...post, serial }))
}

function draftOf({ traffic, serial }: Post, to: RecipientFields): Draft {
  return {
    to,
    channel: traffic.channel,
    category: traffic.category,
    priority: traffic.priority,
    content: { subject: traffic.text, title: traffic.text, text: traffic.text },
    data: { post: serial },
    ...(traffic.actor === undefined ? {} : { actor: traffic.actor }),
  }
}
