/**
 * `sluice recipient`: shows what a recipient's limits allow now, and which notifications were sent, wait or
 * were suppressed.
 */
import type { LimitUseAnswer, ListAnswer, NotificationAnswer } from './answers.ts'
import { createClient } from './client.ts'
import { type Arguments, badUsage, type CommandForm, gatewayOptions } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { type Column, indent, instant, instantFrom, paint, plain, styleOf, table } from './text.ts'

export const form: CommandForm = {
  name: 'recipient',
  summary: 'What a person’s limits allow now, and what was sent to them, waits or was suppressed.',
  positionals: ['<id>'],
  options: {
    ...gatewayOptions,
    limit: { value: '<n>', text: 'The newest so many, 1 to 500; 20 by default' },
  },
  examples: [
    ['sluice recipient user-42', 'Limits and timeline of user-42'],
    ['sluice recipient user-42 --tenant shop --json', 'Of another tenant, for a program'],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const limit = read.text('limit') ?? '20'
  if (!/^[1-9]\d{0,2}$/.test(limit) || Number(limit) > 500)
    throw badUsage(form, '--limit expects a whole number from 1 to 500')
  const client = createClient(read, io)
  const path = `/recipients/${encodeURIComponent(read.positionals[0]!)}`
  const [recipient, { limits }, timeline] = await Promise.all([
    client.find<Readonly<Record<string, unknown>>>(path),
    client.get<{ readonly limits: readonly LimitUseAnswer[] }>(`${path}/limits`),
    client.get<ListAnswer<NotificationAnswer>>(`${path}/timeline`, { limit }),
  ])
  const answer = { recipient: recipient ?? null, limits, timeline }
  io.out(
    read.has('json')
      ? JSON.stringify(answer, null, 2)
      : described(read.positionals[0]!, answer, Date.now(), io),
  )
  return exitCodes.ok
}

interface Found {
  readonly recipient: Readonly<Record<string, unknown>> | null
  readonly limits: readonly LimitUseAnswer[]
  readonly timeline: ListAnswer<NotificationAnswer>
}

function described(id: string, { recipient, limits, timeline }: Found, now: number, io: Io): string {
  const stored = Object.entries(recipient ?? {}).filter(([field]) => field !== 'id')
  return [
    paint(io, 'bold', plain(id)),
    ...(stored.length === 0
      ? ['  no addresses or preferences are stored']
      : stored.map(([field, value]) => `  ${paint(io, 'dim', field.padEnd(14))} ${plain(shown(value))}`)),
    '',
    paint(io, 'bold', 'Limits'),
    indent(
      limits.length === 0
        ? 'No limit of the policy counts by recipient.'
        : table(io, limitColumns(now), limits),
    ),
    '',
    paint(io, 'bold', 'Timeline'),
    indent(
      timeline.items.length === 0
        ? 'Nothing was ever sent.'
        : table(io, timelineColumns(now), timeline.items),
    ),
    ...(timeline.nextCursor === null ? [] : [indent(paint(io, 'dim', 'There is more: --limit'))]),
  ].join('\n')
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function limitColumns(now: number): readonly Column<LimitUseAnswer>[] {
  return [
    { title: 'limit', cell: (use) => use.limit },
    { title: 'window', cell: (use) => use.window },
    {
      title: 'used',
      cell: (use) => `${use.used}/${use.max}`,
      align: 'right',
      style: (use) => (use.remaining === 0 ? 'red' : undefined),
    },
    { title: 'left', cell: (use) => use.remaining, align: 'right' },
    { title: 'booked', cell: (use) => use.reserved, align: 'right' },
    {
      title: 'frees at',
      cell: (use) => (use.used + use.reserved < use.max ? '' : instantFrom(use.freesAt, now)),
    },
  ]
}

function timelineColumns(now: number): readonly Column<NotificationAnswer>[] {
  return [
    { title: 'created', cell: (item) => instant(item.createdAt) },
    { title: 'state', cell: (item) => item.status, style: (item) => styleOf(item.status) },
    { title: 'why', cell: (item) => item.timeline.at(-1)?.reason ?? item.decision.reason ?? '' },
    { title: 'channel', cell: (item) => item.channel },
    { title: 'category', cell: (item) => item.category },
    { title: 'leaves', cell: (item) => (isWaiting(item.status) ? instantFrom(item.sendAt, now) : '') },
    { title: 'id', cell: (item) => item.notificationId },
  ]
}

function isWaiting(status: string): boolean {
  return ['accepted', 'scheduled', 'digesting', 'queued'].includes(status)
}
