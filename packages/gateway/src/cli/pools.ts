/** `sluice pools`: shows the accounts of each channel, their rate now, and which one is out until when. */
import type { PoolsAnswer } from './answers.ts'
import { createClient } from './client.ts'
import { type CommandForm, gatewayOptions, helpOf, readArguments } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { type Column, instantFrom, styleOf, table } from './text.ts'

export const form: CommandForm = {
  name: 'pools',
  summary: 'The provider accounts: rate, use, and which one is out until when.',
  options: gatewayOptions,
  examples: [
    ['sluice pools', 'All accounts'],
    ['sluice pools --json', 'For a program'],
  ],
}

type Pool = PoolsAnswer['pools'][number]
type Row = { readonly pool: Pool; readonly account: Pool['accounts'][number] }

export async function run(args: readonly string[], io: Io): Promise<number> {
  const read = readArguments(form, args)
  if (read === undefined) {
    io.out(helpOf(form))
    return exitCodes.ok
  }
  const answer = await createClient(read, io).get<PoolsAnswer>('/pools')
  const rows = answer.pools.flatMap((pool) => pool.accounts.map((account) => ({ pool, account })))
  io.out(read.has('json') ? JSON.stringify(answer, null, 2) : table(io, columnsAt(Date.now()), rows))
  return exitCodes.ok
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
