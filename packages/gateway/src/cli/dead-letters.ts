/** `sluice dead-letters`: what waits outside the normal flow and why, and the way back into it. */

import { didYouMean } from '../config/suggestion.ts'
import { channels, deadCauses } from '../model.ts'
import type { ListAnswer, NotificationAnswer } from './answers.ts'
import { type Client, createClient } from './client.ts'
import {
  type Arguments,
  badUsage,
  type CommandForm,
  gatewayOptions,
  helpOf,
  readArguments,
} from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { type Column, instant, table } from './text.ts'

const actions = ['list', 'redrive'] as const
const pageSize = 500
const idsMax = 1_000

export const form: CommandForm = {
  name: 'dead-letters',
  summary: 'What waits outside the normal flow, and why; redrive sends it on its way again.',
  positionals: ['[list|redrive]', '[ids]'],
  options: {
    ...gatewayOptions,
    cause: { value: '<cause>', text: `One of ${deadCauses.join(', ')}` },
    channel: { value: '<channel>', text: `One of ${channels.join(', ')}` },
    limit: { value: '<n>', text: 'List at most so many; 100 by default' },
    'dry-run': { text: 'With redrive: only count' },
  },
  examples: [
    ['sluice dead-letters', 'All of them, the oldest first'],
    ['sluice dead-letters list --cause attempts_exhausted --channel email', 'Some of them'],
    [
      'sluice dead-letters redrive --cause attempts_exhausted --dry-run',
      'How many would go on their way again',
    ],
    [
      'sluice dead-letters redrive 01KAJ2ZC5T0V6QH7N3W8XEY4RD',
      'One of them; several are separated by commas',
    ],
  ],
}

type Filter = Readonly<Partial<Record<'cause' | 'channel' | 'tenant', string>>>

export async function run(args: readonly string[], io: Io): Promise<number> {
  const read = readArguments(form, args)
  if (read === undefined) {
    io.out(helpOf(form))
    return exitCodes.ok
  }
  const [action = 'list', ids] = read.positionals
  if (!(actions as readonly string[]).includes(action))
    throw badUsage(form, `"${action}" is neither list nor redrive${didYouMean(action, actions)}`)
  if (action === 'list' && ids !== undefined) throw badUsage(form, `"${ids}" is one argument too many`)
  if (action === 'list' && read.has('dry-run')) throw badUsage(form, '--dry-run belongs to redrive')
  const filter = filterOf(read)
  const client = createClient(read, io)
  if (action === 'list') await list(client, filter, read, io)
  else
    await redrive(
      client,
      filter,
      ids?.split(',').map((id) => id.trim()),
      read,
      io,
    )
  return exitCodes.ok
}

function filterOf(args: Arguments): Filter {
  const filter: Record<string, string> = {}
  for (const [option, known] of Object.entries({ cause: deadCauses, channel: channels, tenant: undefined })) {
    const value = args.text(option)
    if (value === undefined) continue
    if (known !== undefined && !(known as readonly string[]).includes(value)) {
      throw badUsage(form, `--${option} expects one of ${known.join(', ')}${didYouMean(value, known)}`)
    }
    filter[option] = value
  }
  return filter
}

async function list(client: Client, filter: Filter, args: Arguments, io: Io): Promise<void> {
  const limit = args.text('limit') ?? '100'
  if (!/^[1-9]\d{0,6}$/.test(limit)) throw badUsage(form, '--limit expects a whole number above 0')
  const { items, more } = await letters(client, filter, Number(limit))
  if (args.has('json')) io.out(JSON.stringify({ items, more }, null, 2))
  else if (items.length === 0) io.out('No dead letters.')
  else io.out(`${table(io, columns, items)}\n\n${items.length}${more ? ' of more: --limit' : ''}`)
}

async function redrive(
  client: Client,
  filter: Filter,
  ids: readonly string[] | undefined,
  args: Arguments,
  io: Io,
): Promise<void> {
  if (ids !== undefined && (ids.length > idsMax || ids.includes('')))
    throw badUsage(form, `ids are separated by commas, at most ${idsMax}`)
  if (args.has('dry-run')) {
    const { items } = await letters(client, filter, Number.POSITIVE_INFINITY)
    const count =
      ids === undefined ? items.length : items.filter((item) => ids.includes(item.notificationId)).length
    io.out(
      args.has('json') ? JSON.stringify({ wouldRedrive: count }) : `${count} would go on their way again.`,
    )
    return
  }
  const answer = await client.post<{ readonly redriven: number }>('/dead-letters/redrive', {
    ...filter,
    ...(ids === undefined ? {} : { ids }),
  })
  io.out(
    args.has('json')
      ? JSON.stringify(answer)
      : `${answer.redriven} ${answer.redriven === 1 ? 'is' : 'are'} on their way again.`,
  )
}

async function letters(
  client: Client,
  filter: Filter,
  limit: number,
): Promise<{ items: readonly NotificationAnswer[]; more: boolean }> {
  const items: NotificationAnswer[] = []
  let cursor: string | undefined
  while (items.length < limit) {
    const page = await client.get<ListAnswer<NotificationAnswer>>('/dead-letters', {
      ...filter,
      cursor,
      limit: String(Math.min(pageSize, limit - items.length)),
    })
    items.push(...page.items)
    if (page.nextCursor === null) return { items, more: false }
    cursor = page.nextCursor
  }
  return { items, more: true }
}

const columns: readonly Column<NotificationAnswer>[] = [
  { title: 'since', cell: (item) => instant(item.timeline.at(-1)?.at) },
  { title: 'cause', cell: (item) => item.timeline.at(-1)?.reason },
  { title: 'tenant', cell: (item) => item.tenant },
  { title: 'channel', cell: (item) => item.channel },
  { title: 'recipient', cell: (item) => item.recipient },
  { title: 'category', cell: (item) => item.category },
  { title: 'detail', cell: (item) => item.timeline.at(-1)?.detail },
  { title: 'id', cell: (item) => item.notificationId },
]
