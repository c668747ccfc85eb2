/**
 * `sluice hold`: takes an account out until an instant, or stops notifications until then; lists what is held, and ends
 * a hold before its time.
 */
import { channels } from '../model.ts'
import type { HoldsAnswer, PoolsAnswer } from './answers.ts'
import { type Client, createClient } from './client.ts'
import { type Arguments, badUsage, type CommandForm, gatewayOptions, oneOfOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { type Column, instantFrom, plain, table } from './text.ts'
import { untilOption } from './until-option.ts'

export const form: CommandForm = {
  name: 'hold',
  summary: 'Take an account out, or stop notifications, until an instant; without a name, what is held.',
  positionals: ['[<channel>/<account>|<name>]'],
  options: {
    ...gatewayOptions,
    until: {
      value: '<when>',
      text: 'A span such as 2h, a time of day such as 09:00, or an RFC 3339 instant',
    },
    reason: { value: '<text>', text: 'Why, for those who look later' },
    channel: { value: '<channel>', text: 'Stop only notifications of this channel' },
    category: { value: '<category>', text: 'Stop only notifications of this category' },
    'only-tenant': { value: '<tenant>', text: 'Stop only notifications of this tenant' },
    end: { text: 'End the hold before its time' },
  },
  examples: [
    ['sluice hold sms/tw-118 --until 2h --reason "key is being changed"', 'Take an account out'],
    ['sluice hold quiet --category marketing --until 09:00 --reason "incident"', 'No marketing until nine'],
    ['sluice hold quiet --end', 'What waited moves up, the earliest accepted first'],
    ['sluice hold', 'What is held now'],
  ],
}

type Hold = HoldsAnswer['items'][number]

export async function run(read: Arguments, io: Io): Promise<number> {
  const [name] = read.positionals
  const client = createClient(read, io)
  if (name === undefined) return list(client, read, io)
  const path = pathOf(name, read)
  if (read.has('end')) {
    await client.delete(path)
    io.out(read.has('json') ? JSON.stringify({ name, ended: true }) : `${plain(name)} is held no more.`)
    return exitCodes.ok
  }
  const channel = oneOfOption(form, read, 'channel', channels)
  const hold = await client.put<Hold>(path, {
    until: endOf(read),
    reason: reasonOf(read),
    ...(channel === undefined ? {} : { channel }),
    ...(read.has('category') ? { category: read.text('category') } : {}),
    ...(read.has('only-tenant') ? { tenant: read.text('only-tenant') } : {}),
  })
  if (read.has('json')) io.out(JSON.stringify(hold, null, 2))
  else io.out(await sentenceOf(hold, client))
  return exitCodes.ok
}

async function list(client: Client, read: Arguments, io: Io): Promise<number> {
  const answer = await client.get<HoldsAnswer>('/holds')
  if (read.has('json')) io.out(JSON.stringify(answer, null, 2))
  else io.out(answer.items.length === 0 ? 'Nothing is held.' : table(io, columnsAt(Date.now()), answer.items))
  return exitCodes.ok
}

/** The route of an account's hold, or of a hold of notifications. */
function pathOf(name: string, read: Arguments): string {
  const slash = name.indexOf('/')
  if (slash < 0) return `/holds/${encodeURIComponent(name)}`
  for (const option of ['channel', 'category', 'only-tenant'])
    if (read.has(option))
      throw badUsage(form, `--${option} selects notifications, and "${plain(name)}" names an account`)
  const [channel, account] = [name.slice(0, slash), name.slice(slash + 1)]
  return `/pools/${encodeURIComponent(channel)}/${encodeURIComponent(account)}/hold`
}

function reasonOf(read: Arguments): string {
  const reason = read.text('reason')
  if (reason === undefined) throw badUsage(form, '--reason is missing: say why, for those who look later')
  return reason
}

function endOf(read: Arguments): string {
  const until = untilOption(form, read, 'until', Date.now())
  if (until === undefined) throw badUsage(form, '--until is missing: a hold ends by itself')
  return new Date(until).toISOString()
}

/** Says what is held until when, and of an account what its pool carries without it. */
async function sentenceOf(hold: Hold, client: Client): Promise<string> {
  const until = instantFrom(hold.until, Date.now())
  if (hold.account === undefined)
    return plain(`${selected(hold)} wait until ${until}, then the earliest accepted leave first.`)
  const { pools } = await client.get<PoolsAnswer>('/pools', { channel: hold.channel })
  const pool = pools.find(({ accounts }) => accounts.some(({ id }) => id === hold.account))
  const left = pool?.accounts.filter(({ status }) => status === 'healthy').length ?? 0
  const carries = pool?.carries === null || pool === undefined ? '' : `, and carry ${pool.carries}/s`
  return plain(
    `${hold.account} of ${hold.channel} is out until ${until}. ${left} of ${pool?.accounts.length ?? 1} accounts are left${carries}.`,
  )
}

/** The notifications that a hold stops, in words. */
function selected({ tenant, channel, category }: Hold): string {
  const words = [category, 'notifications', channel === undefined ? undefined : `by ${channel}`]
  if (tenant !== undefined) words.push(`of ${tenant}`)
  const text = words.filter((word) => word !== undefined).join(' ')
  return text === 'notifications' ? 'All notifications' : text
}

function columnsAt(now: number): readonly Column<Hold>[] {
  return [
    { title: 'name', cell: ({ name }) => name },
    {
      title: 'holds',
      cell: (hold) => (hold.account === undefined ? selected(hold) : `account ${hold.account}`),
    },
    { title: 'until', cell: ({ until }) => instantFrom(until, now) },
    { title: 'since', cell: ({ since }) => instantFrom(since, now) },
    { title: 'reason', cell: ({ reason }) => reason },
  ]
}
