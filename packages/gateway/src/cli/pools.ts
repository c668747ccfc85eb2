/** `sluice pools`: shows the accounts of each channel, their rate now, and which one is out until when. */
import { channels } from '../model.ts'
import type { PoolsAnswer } from './answers.ts'
import { createClient } from './client.ts'
import { type Arguments, type CommandForm, gatewayOptions, oneOfOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { type Column, instantFrom, plain, styleOf, table } from './text.ts'

export const form: CommandForm = {
  name: 'pools',
  summary: 'The provider accounts: rate, use, and which one is out until when.',
  options: {
    ...gatewayOptions,
    out: { text: 'Only accounts that are out, the first to be back first' },
    wide: {
      text: 'More columns: use of each window, calls under way, latency and results of the last minute',
    },
    channel: { value: '<channel>', text: `One of ${channels.join(', ')}` },
  },
  examples: [
    ['sluice pools', 'All accounts'],
    ['sluice pools --out', 'Which account is out, until when and why'],
    ['sluice pools --wide --channel sms', 'How the accounts of a channel do'],
    ['sluice pools --json', 'For a program'],
  ],
}

type Pool = PoolsAnswer['pools'][number]
type Row = { readonly pool: Pool; readonly account: Pool['accounts'][number] }

export async function run(read: Arguments, io: Io): Promise<number> {
  const channel = oneOfOption(form, read, 'channel', channels)
  const client = createClient(read, io)
  const all = await client.get<PoolsAnswer>('/pools', { channel })
  const answer = read.has('out') ? await client.get<PoolsAnswer>('/pools', { channel, status: 'out' }) : all
  if (read.has('json')) {
    io.out(JSON.stringify(answer, null, 2))
    return exitCodes.ok
  }
  const now = Date.now()
  const rows = rowsOf(answer)
  const columns = [...columnsAt(now), ...(read.has('wide') ? wideColumnsAt(now) : [])]
  if (!read.has('out')) io.out(table(io, columns, rows))
  else {
    io.out(outSentence(rows, rowsOf(all).length, now))
    if (rows.length > 0) io.out(`\n${table(io, columns, rows)}`)
  }
  return exitCodes.ok
}

const keptOutBy = { rate_limited: 'a 429', breaker: 'its breaker', hold: 'an operator' } as const

const backAt = ({ account }: Row): number =>
  account.outUntil === null ? Number.POSITIVE_INFINITY : Date.parse(account.outUntil)

const rowsOf = ({ pools }: PoolsAnswer): readonly Row[] =>
  pools.flatMap((pool) => pool.accounts.map((account) => ({ pool, account })))

/** Says in one sentence which account is out and until when; `rows` are the accounts that are out. */
function outSentence(rows: readonly Row[], of: number, now: number): string {
  const [first] = [...rows].sort((a, b) => backAt(a) - backAt(b))
  if (first === undefined) return `No account is out: all ${of} carry their rate.`
  const { pool, account } = first
  const because = keptOutBy[account.outBecause ?? 'breaker']
  return plain(
    `${rows.length} of ${of} accounts ${rows.length === 1 ? 'is' : 'are'} out; ${rows.length === 1 ? 'it is' : 'the first to be back is'} ${account.id} of ${pool.provider} for ${pool.channel}, out by ${because} until ${instantFrom(account.outUntil, now)}.`,
  )
}

function columnsAt(now: number): readonly Column<Row>[] {
  return [
    { title: 'channel', cell: ({ pool }) => pool.channel },
    { title: 'provider', cell: ({ pool }) => pool.provider },
    { title: 'account', cell: ({ account }) => account.id },
    { title: 'rate', cell: ({ account }) => account.rate },
    { title: 'used', cell: ({ account }) => account.used, align: 'right' },
    {
      title: 'state',
      cell: ({ account }) => account.status,
      style: ({ account }) => styleOf(account.status),
    },
    { title: 'out until', cell: ({ account }) => instantFrom(account.outUntil, now) },
    { title: 'because', cell: ({ account }) => account.outBecause },
    {
      title: 'learned rate',
      cell: ({ account }) => (account.learnedRate === null ? null : `${account.learnedRate}/s`),
      align: 'right',
    },
    { title: 'calls at once', cell: ({ account }) => account.concurrency, align: 'right' },
  ]
}

function wideColumnsAt(now: number): readonly Column<Row>[] {
  return [
    { title: 'out since', cell: ({ account }) => instantFrom(account.outSince, now) },
    {
      title: 'windows',
      cell: ({ account }) =>
        account.windows.map(({ window, used, max }) => `${used}/${max} of ${window}`).join(', ') || null,
    },
    { title: 'in flight', cell: ({ account }) => account.inFlight, align: 'right' },
    {
      title: 'p99',
      cell: ({ account }) => (account.p99Ms === null ? null : `${account.p99Ms} ms`),
      align: 'right',
    },
    { title: 'delivered/min', cell: ({ account }) => account.perMinute.delivered, align: 'right' },
    { title: 'failed/min', cell: ({ account }) => account.perMinute.failed, align: 'right' },
    { title: '429/min', cell: ({ account }) => account.perMinute.rateLimited, align: 'right' },
  ]
}
