/**
 * Finds other gateways over the same record that have another policy or other limits. Each gateway tells the others twice a
 * minute what it has, and compares what it hears with its own. During a rollout they differ for minutes; one that differs
 * for longer was forgotten, and limits hold as the widest of them say.
 */
import { hostname } from 'node:os'
import type { Peers } from '../ports/fleet.ts'
import type { Clock } from '../ports.ts'
import type { Log } from './log-events.ts'

/** The configuration that gateways over one record should have alike, by name: equal names are equal contents. */
interface Configured {
  /** The version of the policy in force. */
  readonly policy: string
  /** The limits of tenants and the accounts of pools. */
  readonly settings: string
}

export interface ConfigurationDifferencesOptions {
  readonly peers: Pick<Peers, 'tell' | 'listen'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly log: Pick<Log, 'warn'>
  /** The configuration of this gateway now. */
  readonly own: () => Configured
  /** The name of this process for an operator. @defaultValue host and process id */
  readonly name?: string
}

export interface ConfigurationDifferences {
  /** A sentence for each other gateway that has differed for five minutes. */
  report(): readonly string[]
  close(): void
}

interface Told extends Configured {
  readonly name: string
}

interface Different {
  told: Told
  readonly since: number
  heardAt: number
  isLogged: boolean
}

const tellMs = 30_000
/** A rollout may take so long, ms. */
const rolloutMs = 5 * 60_000
/** A gateway that has told nothing for so long has gone, ms. */
const goneMs = 3 * tellMs

export function createConfigurationDifferences(
  options: ConfigurationDifferencesOptions,
): ConfigurationDifferences {
  const { peers, clock, log, own, name = `${hostname()}:${process.pid}` } = options
  /** The others that differ, by the name of the process for the fleet: at most as many as there are. */
  const different = new Map<string, Different>()

  const stopListening = peers.listen('configuration', (message, from) => {
    const told = message as Told
    const now = clock.now()
    if (differing(told).length === 0) different.delete(from)
    else {
      const { since, isLogged } = different.get(from) ?? { since: now, isLogged: false }
      different.set(from, { told, since, heardAt: now, isLogged })
    }
  })

  function differing({ policy, settings }: Configured): readonly string[] {
    const mine = own()
    return [
      ...(policy === mine.policy ? [] : ['another policy']),
      ...(settings === mine.settings ? [] : ['other limits of tenants or accounts']),
    ]
  }

  /** Gateways that differ for longer than a rollout takes. This one may have changed since it heard of them. */
  function forLong(): readonly Different[] {
    const now = clock.now()
    for (const [from, { told, heardAt }] of different)
      if (now - heardAt > goneMs || differing(told).length === 0) different.delete(from)
    return [...different.values()].filter(({ since }) => now - since >= rolloutMs)
  }

  function tick(): void {
    peers.tell('configuration', { name, ...own() } satisfies Told)
    for (const each of forLong()) {
      if (each.isLogged) continue
      each.isLogged = true
      const { told } = each
      log.warn({ event: 'gateway.configuration_differs', gateway: told.name, differs: differing(told) })
    }
    stopTicking = clock.at(clock.now() + tellMs, tick)
  }
  let stopTicking = (): void => {}
  tick()

  return {
    report: () => forLong().map(({ told }) => `gateway ${told.name} has ${differing(told).join(' and ')}`),
    close() {
      stopTicking()
      stopListening()
    },
  }
}
