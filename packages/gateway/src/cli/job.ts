/** `sluice job`: shows how far a batch in the background is, or cancels the rest of it. */
import { setTimeout as delay } from 'node:timers/promises'
import { createClient } from './client.ts'
import { type Arguments, type CommandForm, gatewayOptions } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { createProgress } from './progress.ts'
import { plain } from './text.ts'

export const form: CommandForm = {
  name: 'job',
  summary: 'How far a batch in the background is.',
  positionals: ['<jobId>'],
  options: {
    ...gatewayOptions,
    wait: { text: 'Follow it until every recipient is accepted or refused' },
    cancel: { text: 'Accept nothing more of it, and cancel what still waits' },
  },
  examples: [
    ['sluice job 01KAJ2ZC5T0V6QH7N3W8XEY4RD --wait', 'With a bar on a terminal'],
    ['sluice job 01KAJ2ZC5T0V6QH7N3W8XEY4RD --cancel', 'The end of it'],
  ],
}

interface JobAnswer {
  readonly jobId: string
  readonly status: string
  readonly total: number
  readonly counts: Readonly<Record<string, number>>
  readonly refused?: readonly unknown[]
}

const followEveryMs = 500

export async function run(read: Arguments, io: Io): Promise<number> {
  const client = createClient(read, io)
  const path = `/jobs/${encodeURIComponent(read.positionals[0]!)}`
  if (read.has('cancel')) await client.delete(path)
  const progress = createProgress(io, 'accepted')
  let job = await client.get<JobAnswer>(path)
  while (read.has('wait') && job.status === 'running') {
    progress.show(takenOf(job) / job.total)
    await delay(followEveryMs)
    job = await client.get<JobAnswer>(path)
  }
  progress.end()
  io.out(read.has('json') ? JSON.stringify(job, null, 2) : jobText(job))
  return exitCodes.ok
}

const takenOf = ({ counts, refused = [] }: JobAnswer): number =>
  Object.values(counts).reduce((sum, count) => sum + count, refused.length)

function jobText(job: JobAnswer): string {
  const { jobId, status, total, counts, refused = [] } = job
  const states = Object.entries(counts).map(([state, count]) => `${count} ${state}`)
  const parts = [...states, ...(refused.length === 0 ? [] : [`${refused.length} refused`])]
  return plain(
    `${jobId} is ${status}: ${takenOf(job)} of ${total} taken${parts.length === 0 ? '' : ` (${parts.join(', ')})`}.`,
  )
}
