/**
 * `sluice explain`: shows why a notification was sent, delayed or suppressed, rule by rule, and its timeline; with `--log`
 * what the delivery log has of it, also when the store keeps it no more.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { SluiceError } from '../errors.ts'
import { isFinal, type Status } from '../model.ts'
import type {
  DecisionAnswer,
  EventAnswer,
  ExplainedAnswer,
  NotificationAnswer,
  RuleAnswer,
} from './answers.ts'
import { type Client, createClient } from './client.ts'
import { type Arguments, type CommandForm, gatewayOptions } from './command.ts'
import { exitCodes, Failure, type Io } from './io.ts'
import { type Column, indent, instant, instantFrom, paint, plain, styleOf, table } from './text.ts'

export const form: CommandForm = {
  name: 'explain',
  summary: 'Why a notification was sent, waits, or was suppressed: rule by rule, with its timeline.',
  positionals: ['<notificationId>'],
  options: {
    ...gatewayOptions,
    wait: { text: 'Follow it to its end' },
    log: { text: 'Read the delivery log in place of the gateway: also for what retention has removed' },
    'exit-status': { text: 'Exit with 3 where it has not ended, and with 4 where it ended undelivered' },
  },
  examples: [
    ['sluice explain 01KAJ2ZC5T0V6QH7N3W8XEY4RD', 'The decision and the timeline'],
    [
      'sluice explain 01KAJ2ZC5T0V6QH7N3W8XEY4RD --wait --exit-status',
      'For a script: 0 when it was delivered',
    ],
    ['sluice explain 01KAJ2ZC5T0V6QH7N3W8XEY4RD --log', 'Its changes of state, as the delivery log has them'],
    ['sluice explain 01KAJ2ZC5T0V6QH7N3W8XEY4RD --tenant shop --json', 'Of another tenant, for a program'],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  if (read.has('log')) return explainLogged(read, io)
  const client = createClient(read, io)
  const path = `/notifications/${encodeURIComponent(read.positionals[0]!)}`
  const notification = await found(client, path, read.has('wait'), io)
  io.out(read.has('json') ? JSON.stringify(notification, null, 2) : explained(notification, Date.now(), io))
  return read.has('exit-status') ? endOf(notification) : exitCodes.ok
}

/** Prints what the delivery log has of a notification. It is asked without a gateway, as the configuration names it. */
async function explainLogged(read: Arguments, io: Io): Promise<number> {
  for (const option of ['wait', 'exit-status'])
    if (read.has(option))
      throw new SluiceError('BAD_USAGE', `--log shows what is logged by now: --${option} asks the gateway`)
  const [{ loadConfig }, { openDeliveryLog }] = await Promise.all([
    import('../config/load.ts'),
    import('../gateway.ts'),
  ])
  const path = read.text('config')
  const config = loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  const log = await openDeliveryLog(config, { now: Date.now })
  if (log === undefined)
    throw new Failure('There is no delivery log: the configuration keeps timelines in the store alone.', {
      hint: 'deliveryLog: cassandra://… names one; without --log the gateway is asked',
    })
  const id = read.positionals[0]!
  try {
    const logged = await log.notification(id).catch((error: Error) => {
      throw new Failure(`The delivery log cannot be read: ${error.message}`, { cause: error })
    })
    if (logged === undefined)
      throw new Failure(`The delivery log has nothing of ${plain(id)}.`, { code: 'NOT_FOUND' })
    const { notificationId, tenant, recipient } = logged
    const entries = logged.entries.map((entry) => ({ ...entry, at: new Date(entry.at).toISOString() }))
    io.out(
      read.has('json')
        ? JSON.stringify({ notificationId, tenant, recipient, entries }, null, 2)
        : [
            `${paint(io, 'bold', plain(notificationId))}  ${paint(io, 'dim', `tenant ${plain(tenant)} · to ${plain(recipient)}`)}`,
            indent(timelineText(entries, io)),
          ].join('\n'),
    )
    return exitCodes.ok
  } finally {
    await log.close()
  }
}

/** Interval at which a notification is read again while it is followed. */
const followEveryMs = 500

/** Reads the notification; while it is followed, each new sentence goes to standard error until it has ended. */
async function found(client: Client, path: string, isFollowed: boolean, io: Io): Promise<ExplainedAnswer> {
  let told: string | undefined
  for (;;) {
    const notification = await client.get<ExplainedAnswer>(path, { explain: 'true' })
    if (!isFollowed || isFinal(notification.status as Status)) return notification
    const { text } = notification.explanation
    if (text !== told) io.err(plain(text))
    told = text
    await delay(followEveryMs)
  }
}

/** The exit code for a script: 3 while it has not ended, 4 where it ended undelivered. */
function endOf({ status }: NotificationAnswer): number {
  if (!isFinal(status as Status)) return 3
  return status === 'delivered' || status === 'merged' ? exitCodes.ok : 4
}

export function explained(
  notification: NotificationAnswer & Partial<ExplainedAnswer>,
  now: number,
  io: Io,
): string {
  const { notificationId, status, channel, requestedChannel, category, priority, template, recipient } =
    notification
  const { tenant, module, createdAt, sendAt, expiresAt, digestId, decision, timeline } = notification
  const diverted = requestedChannel === undefined ? '' : ` (asked for ${requestedChannel})`
  const facts: (readonly [string, string | undefined])[] = [
    ['to', `${recipient} by ${channel}${diverted}`],
    ['what', [category, priority, template].filter((part) => part !== null).join(' · ')],
    ['from', `tenant ${tenant} · module ${module}`],
    ['created', instant(createdAt)],
    ['leaves', sendAt === null ? undefined : instantFrom(sendAt, now)],
    ['expires', expiresAt === null ? undefined : instantFrom(expiresAt, now)],
    ['digest', digestId],
  ]
  const { explanation } = notification
  return [
    ...(explanation === undefined ? [] : [plain(explanation.text)]),
    ...(status === 'dead' ? [`To send it now: sluice dead-letters redrive ${plain(notificationId)}`] : []),
    ...(explanation === undefined ? [] : ['']),
    `${paint(io, 'bold', plain(notificationId))}  ${statusText(status, io)}`,
    ...facts
      .filter((fact): fact is readonly [string, string] => fact[1] !== undefined)
      .map(([name, text]) => `  ${paint(io, 'dim', name.padEnd(8))} ${plain(text)}`),
    '',
    decided(decision, now, io),
    '',
    paint(io, 'bold', 'Timeline'),
    indent(timelineText(timeline, io)),
  ].join('\n')
}

export function statusText(status: string, io: Io): string {
  const style = styleOf(status)
  return style === undefined ? plain(status) : paint(io, style, plain(status))
}

export function decided(decision: DecisionAnswer, now: number, io: Io): string {
  const why = [
    decision.reason,
    decision.limit === undefined ? undefined : `by ${decision.limit}`,
    decision.at === undefined ? undefined : `until ${instantFrom(decision.at, now)}`,
  ].filter((part) => part !== undefined)
  const head = `${paint(io, 'bold', 'Decision')}  ${plain([decision.outcome, ...(decision.outcome === 'send' ? [] : why)].join(' '))}  ${paint(io, 'dim', `policy ${plain(decision.policyVersion)}`)}`
  if (decision.rules.length === 0) return `${head}\n  No limit counts it.`
  const columns: readonly Column<RuleAnswer>[] = [
    { title: '', cell: (rule) => (rule.limit === decision.limit && !rule.admits ? '→' : ' ') },
    { title: 'limit', cell: (rule) => rule.limit },
    { title: 'window', cell: (rule) => rule.window },
    { title: 'used', cell: (rule) => `${rule.used}/${rule.max}`, align: 'right' },
    // A window that is not used up and admits nobody is full: waiting notifications hold all the places that are left.
    {
      title: 'left',
      cell: (rule) =>
        rule.admits || rule.remaining === 0 ? rule.remaining : `${rule.remaining}, all booked`,
      align: 'right',
    },
    {
      title: 'admits',
      cell: (rule) => (rule.admits ? 'yes' : 'no'),
      style: (rule) => (rule.admits ? 'green' : 'red'),
    },
    { title: 'frees at', cell: (rule) => (rule.admits ? '' : instantFrom(rule.freesAt, now)) },
  ]
  return `${head}\n${indent(table(io, columns, decision.rules))}`
}

export function timelineText(timeline: readonly EventAnswer[], io: Io): string {
  const columns: readonly Column<EventAnswer>[] = [
    { title: 'at', cell: (event) => instant(event.at) },
    { title: 'state', cell: (event) => event.status, style: (event) => styleOf(event.status) },
    { title: 'why', cell: (event) => event.reason ?? '' },
    {
      title: 'through',
      cell: (event) => [event.provider, event.account].filter((part) => part !== undefined).join('/'),
    },
    {
      title: 'detail',
      cell: (event) =>
        [event.attempt === undefined ? '' : `attempt ${event.attempt}`, event.detail ?? '']
          .filter((part) => part !== '')
          .join(' · '),
    },
  ]
  return table(io, columns, timeline)
}
