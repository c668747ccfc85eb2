/** `sluice list`: lists notifications, newest first or the first to leave first, by what they are and why they wait. */
import { didYouMean } from '../config/suggestion.ts'
import { channels, priorities, type Status, statuses } from '../model.ts'
import type { ListAnswer, NotificationAnswer } from './answers.ts'
import { createClient } from './client.ts'
import { type Arguments, badUsage, type CommandForm, gatewayOptions, oneOfOption } from './command.ts'
import { instantTextOption } from './instant-option.ts'
import { exitCodes, type Io } from './io.ts'
import { type Column, instant, instantFrom, styleOf, table } from './text.ts'

export const form: CommandForm = {
  name: 'list',
  summary: 'Notifications, newest first or the first to leave first.',
  options: {
    ...gatewayOptions,
    recipient: { value: '<id>', text: 'Of this recipient' },
    status: { value: '<status>', text: 'One state, or several separated by commas' },
    category: { value: '<category>', text: 'Such as billing' },
    channel: { value: '<channel>', text: `One of ${channels.join(', ')}` },
    job: { value: '<jobId>', text: 'Of this batch' },
    module: { value: '<id>', text: 'Sent by this module' },
    priority: { value: '<priority>', text: `One of ${priorities.join(', ')}` },
    template: { value: '<name>', text: 'Made of this template' },
    actor: { value: '<id>', text: 'Caused by this actor' },
    reason: { value: '<reason>', text: 'For which it waits or ended, such as quiet_hours' },
    'limit-name': { value: '<name>', text: 'Decided by this limit of the policy' },
    'idempotency-key': { value: '<key>', text: 'Accepted under this key' },
    from: { value: '<instant>', text: 'Created at this instant or later' },
    to: { value: '<instant>', text: 'Created before this instant' },
    order: { value: '<order>', text: 'newest (default), or sendAt: what waits, the first to leave first' },
    limit: { value: '<n>', text: 'At most so many; 50 by default' },
  },
  examples: [
    ['sluice list --status scheduled --category marketing', 'Marketing that waits'],
    ['sluice list --order sendAt --channel sms', 'What leaves next'],
    ['sluice list --recipient user-42 --json', 'For a program'],
  ],
}

/** Rows that one page of the gateway has at most. */
const pageMax = 500

export async function run(read: Arguments, io: Io): Promise<number> {
  const limit = read.text('limit') ?? '50'
  if (!/^[1-9]\d{0,5}$/.test(limit)) throw badUsage(form, '--limit expects a whole number above 0')
  const client = createClient(read, io)
  const query = {
    recipient: read.text('recipient'),
    status: statusOption(read),
    category: read.text('category'),
    channel: oneOfOption(form, read, 'channel', channels),
    job: read.text('job'),
    module: read.text('module'),
    priority: oneOfOption(form, read, 'priority', priorities),
    template: read.text('template'),
    actor: read.text('actor'),
    reason: read.text('reason'),
    limitName: read.text('limit-name'),
    idempotencyKey: read.text('idempotency-key'),
    from: instantTextOption(form, read, 'from'),
    to: instantTextOption(form, read, 'to'),
    order: oneOfOption(form, read, 'order', ['newest', 'sendAt']),
  }
  const items: NotificationAnswer[] = []
  let cursor: string | undefined
  // A page may be short, even empty, before the end.
  do {
    const page = await client.get<ListAnswer<NotificationAnswer>>('/notifications', {
      ...query,
      cursor,
      limit: String(Math.min(pageMax, Number(limit) - items.length)),
    })
    items.push(...page.items)
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined && items.length < Number(limit))
  const more = cursor !== undefined
  if (read.has('json')) io.out(JSON.stringify({ items, more }, null, 2))
  else if (items.length === 0) io.out('No notification fits.')
  else
    io.out(`${table(io, columnsAt(Date.now()), items)}\n\n${items.length}${more ? ' of more: --limit' : ''}`)
  return exitCodes.ok
}

/** The states as they are written, separated by commas; undefined where the option is not given. */
function statusOption(read: Arguments): string | undefined {
  const text = read.text('status')
  const unknown = text?.split(',').find((word) => !statuses.includes(word as Status))
  if (unknown === undefined) return text
  throw badUsage(
    form,
    `--status expects one or several of ${statuses.join(', ')}, separated by commas${didYouMean(unknown, statuses)}`,
  )
}

function columnsAt(now: number): readonly Column<NotificationAnswer>[] {
  return [
    { title: 'created', cell: (item) => instant(item.createdAt) },
    { title: 'state', cell: (item) => item.status, style: (item) => styleOf(item.status) },
    { title: 'why', cell: (item) => item.timeline.at(-1)?.reason ?? item.decision.reason ?? '' },
    { title: 'recipient', cell: (item) => item.recipient },
    { title: 'channel', cell: (item) => item.channel },
    { title: 'category', cell: (item) => item.category },
    { title: 'leaves', cell: (item) => instantFrom(item.sendAt, now) },
    { title: 'id', cell: (item) => item.notificationId },
  ]
}
