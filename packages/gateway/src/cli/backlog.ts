/** `sluice backlog`: shows what piles up, why, and when it is gone. */
import { backlogKeys } from '../backlog-cell.ts'
import { channels } from '../model.ts'
import type { BacklogAnswer } from './answers.ts'
import { createClient } from './client.ts'
import { type Arguments, type CommandForm, gatewayOptions, oneOfOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { type Column, instantFrom, plain, table } from './text.ts'

export const form: CommandForm = {
  name: 'backlog',
  summary: 'Notifications that wait, by reason, and when they will be gone.',
  options: {
    ...gatewayOptions,
    by: { value: '<what>', text: `One of ${backlogKeys.join(', ')}; reason by default` },
    channel: { value: '<channel>', text: `One of ${channels.join(', ')}` },
    reason: { value: '<reason>', text: 'Such as quiet_hours or provider_capacity' },
  },
  examples: [
    ['sluice backlog', 'The reasons, the largest first'],
    [
      'sluice backlog --by tenant --reason provider_capacity',
      'Whose notifications are due and have not left',
    ],
  ],
}

type Group = BacklogAnswer['groups'][number]

export async function run(read: Arguments, io: Io): Promise<number> {
  const answer = await createClient(read, io).get<BacklogAnswer>('/backlog', {
    by: oneOfOption(form, read, 'by', backlogKeys),
    channel: oneOfOption(form, read, 'channel', channels),
    reason: read.text('reason'),
    tenant: read.text('tenant'),
  })
  io.out(read.has('json') ? JSON.stringify(answer, null, 2) : backlogText(answer, Date.now(), io))
  return exitCodes.ok
}

/** One sentence, then the table. */
export function backlogText({ groups }: BacklogAnswer, now: number, io: Io): string {
  if (groups.length === 0) return 'Nothing waits.'
  return `${backlogSentence(groups, now)}\n\n${table(io, columnsAt(now), groups)}`
}

export function backlogSentence(groups: readonly Group[], now: number): string {
  const count = groups.reduce((sum, group) => sum + group.count, 0)
  const [most] = groups
  const why = groups.length === 1 ? '' : ', most of them'
  return `${count} ${count === 1 ? 'notification waits' : 'notifications wait'}${why} for ${plain(most!.key)}; ${goneText(groups, count, now)}.`
}

function goneText(groups: readonly Group[], total: number, now: number): string {
  const never = groups.filter(({ emptyIs }) => emptyIs === 'never')
  if (never.length > 0) {
    const count = never.reduce((sum, group) => sum + group.count, 0)
    if (total === 1) return 'it stays, since nothing carries it now'
    return `${count === total ? 'all' : count} of them stay, since nothing carries them now`
  }
  const last = groups.reduce((latest, group) => (group.emptyAt! > latest.emptyAt! ? group : latest))
  const isEstimate = groups.some(({ emptyIs }) => emptyIs === 'estimate')
  return `all are gone at ${instantFrom(last.emptyAt, now)}${isEstimate ? ' by estimate' : ''}`
}

function columnsAt(now: number): readonly Column<Group>[] {
  return [
    { title: 'what', cell: ({ key }) => key },
    { title: 'count', cell: ({ count }) => count, align: 'right' },
    { title: 'due since', cell: ({ oldestDueAt }) => instantFrom(oldestDueAt, now) },
    { title: 'next', cell: ({ nextAt }) => instantFrom(nextAt, now) },
    { title: 'gone at', cell: ({ emptyAt }) => instantFrom(emptyAt, now) },
    {
      title: 'that is',
      cell: ({ emptyIs }) => emptyIs,
      style: ({ emptyIs }) => (emptyIs === 'never' ? 'red' : undefined),
    },
    { title: 'in 1 min', cell: ({ leaving }) => leaving['1m'], align: 'right' },
    { title: '10 min', cell: ({ leaving }) => leaving['10m'], align: 'right' },
    { title: '1 h', cell: ({ leaving }) => leaving['1h'], align: 'right' },
    { title: '1 d', cell: ({ leaving }) => leaving['1d'], align: 'right' },
    { title: 'later', cell: ({ leaving }) => leaving.later, align: 'right' },
  ]
}
