/**
 * `sluice move`: takes everything from one store to another, all or nothing, and compares both sides before it ends. The
 * source stays as it was.
 */
import { resolve } from 'node:path'
import { type Arguments, badUsage, type CommandForm, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { createProgress } from './progress.ts'

export const form: CommandForm = {
  name: 'move',
  summary: 'Move everything from one store to another, with no gateway on either.',
  positionals: ['<from>', '<to>'],
  options: {
    'dry-run': { text: 'Read the source and look at the destination, and write nothing' },
    json: jsonOption,
  },
  examples: [
    ['sluice move sqlite:./data/sluice.db postgres://sluice@db/sluice --dry-run', 'What would be moved'],
    ['sluice move sqlite:./data/sluice.db file:/run/secrets/store', 'The address stands in a file'],
  ],
}

const plurals = {
  notification: 'notifications',
  content: 'shared contents',
  recipient: 'recipients',
  digest: 'open digests',
  job: 'jobs',
  answer: 'stored answers',
  account: 'records of accounts',
  hold: 'holds of operators',
  erasure: 'erasures under way',
  timeLine: 'time line',
  feedback: 'feedback events',
  waitingReport: 'reports that wait',
  log: 'changes of state for the delivery log',
  sent: 'sent records',
  position: 'positions in topics',
  poison: 'unreadable records',
  key: 'secret keys',
} as const

export async function run(read: Arguments, io: Io): Promise<number> {
  const [{ readStoreAddress }, { readTextFile }, { moveStore }] = await Promise.all([
    import('../config/store-address.ts'),
    import('../config/source.ts'),
    import('../gateway.ts'),
  ])
  /** An address, or the file that holds it: arguments are seen by everybody on the machine. */
  function storeAt(written: string) {
    const absolute = (path: string): string => resolve(io.cwd, path)
    try {
      if (!written.startsWith('file:')) return readStoreAddress(written, absolute)
      const file = readTextFile(absolute(written.slice('file:'.length)))
      if (!file.ok) throw new Error(file.message)
      return readStoreAddress(file.text.trim(), absolute)
    } catch (error) {
      throw badUsage(form, `"${withoutPassword(written)}": ${(error as Error).message}`)
    }
  }
  const [from, to] = read.positionals.map(storeAt)
  const isDryRun = read.has('dry-run')
  const progress = createProgress(io, isDryRun ? 'read' : 'moved')
  const summaries = await moveStore({
    from: from!,
    to: to!,
    isDryRun,
    onProgress: progress.show,
  }).finally(progress.end)
  if (read.has('json')) {
    io.out(JSON.stringify({ from: from!.path, to: to!.path, dryRun: isDryRun, moved: summaries }))
    return exitCodes.ok
  }
  const lines = Object.entries(summaries).map(
    ([kind, { count, hash }]) =>
      `${String(count).padStart(9)}  ${plurals[kind as keyof typeof plurals].padEnd(20)} ${hash}`,
  )
  io.out(
    [
      ...(lines.length === 0 ? ['The source is empty.'] : lines),
      isDryRun
        ? 'Nothing was written.'
        : `Moved, and compared with the source. Set "store" to the destination, keep ${from!.path} as a copy, and start no gateway on it: what waits there waits in both.`,
    ].join('\n'),
  )
  return exitCodes.ok
}

/** One that cannot be read may have any character in its password: all up to the last `@` counts as that. */
const withoutPassword = (written: string): string =>
  written.replace(/(:\/\/[^:@]*):.*@/s, '$1@').replace(/([?&]password=)[^&]*/gi, '$1***')
