/**
 * Reads the section `websocket`: the limits of every connection, and the rule for notifications to offline
 * recipients. Only fields whose form is valid come here; mistakes in their meaning are noted.
 */
import type { Channel } from '../model.ts'
import type { AbsentConfig, AbsentRule, PoolConfig, WebSocketConfig } from './config.ts'
import { readDuration, readSize } from './quantity.ts'
import type { ConfigDocument } from './schema.ts'
import type { Source } from './source.ts'

const dayMs = 86_400_000

export function readWebSocket(
  written: NonNullable<ConfigDocument['websocket']>,
  source: Source,
): WebSocketConfig {
  const heartbeatMs = written.heartbeat === undefined ? 30_000 : readDuration(written.heartbeat)
  if (heartbeatMs < 100) source.fault(['websocket', 'heartbeat'], 'expected at least 100ms')
  return {
    messageMaxBytes: written.messageMax === undefined ? 65_536 : readSize(written.messageMax),
    subscriptionsMax: written.subscriptions ?? 50,
    framesPerSecond: written.frames ?? 1_000,
    waitingMax: written.waiting ?? 1_000,
    unreadMaxBytes: written.unread === undefined ? 1_048_576 : readSize(written.unread),
    heartbeatMs,
    connectionsMax: written.connections ?? 8_000,
    absent: readAbsent(written),
  }
}

function readAbsent(written: NonNullable<ConfigDocument['websocket']>): AbsentConfig {
  const { default: usual = 'wait', ...others } = written.absent ?? {}
  return {
    default: readAbsentRule(usual),
    byCategory: new Map(Object.entries(others).map(([category, rule]) => [category, readAbsentRule(rule)])),
    waitMaxMs: written.waitMax === undefined ? dayMs : readDuration(written.waitMax),
  }
}

function readAbsentRule(rule: string): AbsentRule {
  const [kind, channel] = rule.split(':') as [AbsentRule['kind'], Channel?]
  return kind === 'fallback' ? { kind, channel: channel! } : { kind }
}

/** Checks that the fallback channel of offline recipients is served. */
export function checkAbsent(
  { default: usual, byCategory }: AbsentConfig,
  pools: readonly PoolConfig[],
  source: Source,
): void {
  const served = new Set(pools.map(({ channel }) => channel))
  for (const [category, rule] of [['default', usual] as const, ...byCategory]) {
    if (rule.kind !== 'fallback' || served.has(rule.channel)) continue
    source.fault(['websocket', 'absent', category], `no pool serves ${rule.channel}`)
  }
}
