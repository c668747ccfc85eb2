/** `sluice dead-letters`: lists dead letters with their causes, and redrives them. */

import { didYouMean } from '../config/suggestion.ts'
import { channels, deadCauses } from '../model.ts'
import type { ListAnswer, NotificationAnswer, RecordAnswer } from './answers.ts'
import { type Client, createClient } from './client.ts'
import { type Arguments, badUsage, type CommandForm, gatewayOptions } from './command.ts'
import { exitCodes, Failure, type Io } from './io.ts'
import { createProgress } from './progress.ts'
import { type Column, instant, plain, table } from './text.ts'

const actions = ['list', 'redrive'] as const
const pageSize = 500
const idsMax = 1_000

export const form: CommandForm = {
  name: 'dead-letters',
  summary: 'What waits outside the normal flow, and why; redrive sends it on its way again.',
  positionals: ['[list|redrive]', '[ids]'],
  options: {
    ...gatewayOptions,
    cause: { value: '<cause>', text: `One of ${deadCauses.join(', ')}; with redrive several, by commas` },
    channel: { value: '<channel>', text: `One of ${channels.join(', ')}` },
    limit: { value: '<n>', text: 'At most so many; list: 100 by default, redrive: all, the oldest first' },
    all: { text: 'With redrive: everything that fits, letters of unknown outcome too' },
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

type Filter = Readonly<Partial<Record<'cause' | 'channel' | 'tenant', string>>> & {
  readonly causes?: readonly string[]
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const [action = 'list', ids] = read.positionals
  if (!(actions as readonly string[]).includes(action))
    throw badUsage(form, `"${action}" is neither list nor redrive${didYouMean(action, actions)}`)
  if (action === 'list' && ids !== undefined) throw badUsage(form, `"${ids}" is one argument too many`)
  for (const option of ['dry-run', 'all'])
    if (action === 'list' && read.has(option)) throw badUsage(form, `--${option} belongs to redrive`)
  const filter = filterOf(read, action === 'redrive')
  const client = createClient(read, io)
  if (action === 'redrive') {
    const given = ids?.split(',').map((id) => id.trim())
    const { redriven } = await redrive(client, filter, given, read, io)
    return given !== undefined && redriven === 0 ? exitCodes.failure : exitCodes.ok
  }
  await list(client, filter, read, io)
  return exitCodes.ok
}

/** @param isList true where several causes may be given */
function filterOf(args: Arguments, isList: boolean): Filter {
  const filter: Record<string, string | readonly string[]> = {}
  for (const [option, known] of Object.entries({ cause: deadCauses, channel: channels, tenant: undefined })) {
    const value = args.text(option)
    if (value === undefined) continue
    if (option === 'cause' && isList && value.includes(',')) {
      filter.causes = value.split(',').map((each) => checked(option, each.trim(), deadCauses))
      continue
    }
    filter[option] = known === undefined ? value : checked(option, value, known)
  }
  return filter
}

function checked(option: string, value: string, known: readonly string[]): string {
  if (known.includes(value)) return value
  throw badUsage(form, `--${option} expects one of ${known.join(', ')}${didYouMean(value, known)}`)
}

function limitOf(args: Arguments): number | undefined {
  const written = args.text('limit')
  if (written === undefined) return undefined
  if (!/^[1-9]\d{0,5}$/.test(written)) throw badUsage(form, '--limit expects a whole number above 0')
  return Number(written)
}

async function list(client: Client, filter: Filter, args: Arguments, io: Io): Promise<void> {
  const { items, more } = await letters(client, filter, limitOf(args) ?? 100)
  if (args.has('json')) io.out(JSON.stringify({ items, more }, null, 2))
  else if (items.length === 0) io.out('No dead letters.')
  else io.out(`${table(io, columns, items)}\n\n${items.length}${more ? ' of more: --limit' : ''}`)
}

interface Redriven {
  readonly redriven: number
  readonly left: readonly { readonly notificationId: string; readonly why: string }[]
  readonly more?: boolean
}

async function redrive(
  client: Client,
  filter: Filter,
  ids: readonly string[] | undefined,
  args: Arguments,
  io: Io,
): Promise<Redriven> {
  if (ids !== undefined && (ids.length > idsMax || ids.includes('')))
    throw badUsage(form, `ids are separated by commas, at most ${idsMax}`)
  const limit = limitOf(args)
  const ask = (how: How) =>
    client.post<Redriven>('/dead-letters/redrive', {
      ...filter,
      ...(ids === undefined ? {} : { ids }),
      ...how,
    })
  const isNamed = ids !== undefined || Object.keys(filter).length > 0
  const isDry = args.has('dry-run')
  const all = args.has('all') || (!isNamed && (isDry || (await isWanted(ask, io))))
  if (!isNamed && !all) throw new Failure('Nothing was redriven.')
  const how = {
    ...(all ? { all } : {}),
    ...(isDry ? { dryRun: true } : {}),
    ...(limit === undefined ? {} : { limit }),
  }
  const answer = isDry || ids !== undefined ? await ask(how) : await inParts(ask, how, io)
  io.out(args.has('json') ? JSON.stringify(answer) : redrivenText(answer, isDry))
  return answer
}

interface How {
  readonly all?: boolean
  readonly dryRun?: boolean
  readonly limit?: number
}

/** Letters of one request, some hundred milliseconds: an interrupted command stops after them. */
const partMax = 200

/** Redrives in parts, with a progress bar where that takes longer than a second. */
async function inParts(ask: (how: How) => Promise<Redriven>, how: How, io: Io): Promise<Redriven> {
  const progress = createProgress(io, 'redriven')
  const { redriven: total } = await ask({ ...how, dryRun: true })
  const left = new Map<string, Redriven['left'][number]>()
  let redriven = 0
  let more = false
  // Letters that die again meanwhile are not taken a second time: `total` bounds the work.
  do {
    const part = await ask({ ...how, limit: Math.max(1, Math.min(partMax, total - redriven)) })
    redriven += part.redriven
    more = part.more === true
    for (const each of part.left) left.set(each.notificationId, each)
    progress.show(total === 0 ? 1 : redriven / total)
  } while (more && redriven < total)
  progress.end()
  return { redriven, left: [...left.values()], ...(how.limit === undefined ? {} : { more }) }
}

/** Requires a confirmation before all dead letters are redriven; a script has to pass `--all`. */
async function isWanted(ask: (how: How) => Promise<Redriven>, io: Io): Promise<boolean> {
  if (io.ask === undefined) {
    throw badUsage(
      form,
      'redrive without a filter would take every dead letter, also those that may have arrived: add --all, ids, or a filter such as --cause',
    )
  }
  const { redriven } = await ask({ all: true, dryRun: true })
  const answer = await io.ask(`Send all ${redriven} dead letters on their way again? [y/N] `)
  return /^y(es)?$/i.test(answer.trim())
}

function redrivenText({ redriven, left, more }: Redriven, isDry: boolean): string {
  const head = isDry
    ? `${redriven} would go on their way again.`
    : `${redriven} ${redriven === 1 ? 'is' : 'are'} on their way again.`
  return [
    more === true ? `${head} There are more: --limit` : head,
    ...left.map(({ notificationId, why }) => `${plain(notificationId)} stays: ${whyText[why] ?? plain(why)}`),
  ].join('\n')
}

const whyText: Readonly<Record<string, string>> = {
  not_dead: 'it is no dead letter',
  expired: 'it has expired',
  cancelled: 'it was cancelled',
  queue_full: 'the queue of its tenant is full',
  unserved: 'no pool serves its channel; it returns when one does, or by a redrive after that',
}

async function letters(
  client: Client,
  { causes: _, ...filter }: Filter,
  limit: number,
): Promise<{ items: readonly DeadLetter[]; more: boolean }> {
  const items: DeadLetter[] = []
  let cursor: string | undefined
  while (items.length < limit) {
    const page = await client.get<ListAnswer<DeadLetter>>('/dead-letters', {
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

type DeadLetter = NotificationAnswer | RecordAnswer
const recordOf = (item: DeadLetter): RecordAnswer['record'] | undefined =>
  'record' in item ? item.record : undefined
const notificationOf = (item: DeadLetter): NotificationAnswer | undefined =>
  'record' in item ? undefined : item

const columns: readonly Column<DeadLetter>[] = [
  { title: 'since', cell: (item) => instant(item.timeline.at(-1)?.at) },
  { title: 'cause', cell: (item) => item.timeline.at(-1)?.reason },
  { title: 'tenant', cell: (item) => item.tenant ?? undefined },
  { title: 'channel', cell: (item) => notificationOf(item)?.channel },
  { title: 'recipient', cell: (item) => notificationOf(item)?.recipient },
  { title: 'category', cell: (item) => notificationOf(item)?.category },
  { title: 'detail', cell: (item) => item.timeline.at(-1)?.detail },
  {
    title: 'id',
    cell(item) {
      const record = recordOf(item)
      return record === undefined
        ? notificationOf(item)?.notificationId
        : `${record.topic}/${record.partition}/${record.offset}`
    },
  },
]
