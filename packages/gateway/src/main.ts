/**
 * The command line: finds the command, runs it, and turns an error into a message and an exit code. Commands
 * are loaded when they are called, so that help is quick and serving loads nothing but the gateway.
 */
import { type Arguments, type CommandForm, columns, helpOf, readArguments } from './cli/command.ts'
import { exitCodes, Failure, type Io, processIo } from './cli/io.ts'
import { plain } from './cli/text.ts'
import { didYouMean } from './config/suggestion.ts'
import { errors, SluiceError } from './errors.ts'
import { version } from './version.ts'

interface Command {
  readonly summary: string
  readonly load: () => Promise<{
    readonly form: CommandForm
    run(args: Arguments, io: Io): Promise<number>
  }>
}

export const commands: Readonly<Record<string, Command>> = {
  serve: { summary: 'Run the gateway', load: () => import('./cli/serve.ts') },
  check: {
    summary: 'Validate configuration, policy and templates, print what is in force',
    load: () => import('./cli/check.ts'),
  },
  migrate: {
    summary: 'Complete the schema of a store on a server, as its owner',
    load: () => import('./cli/migrate.ts'),
  },
  move: {
    summary: 'Move everything from one store to another',
    load: () => import('./cli/move.ts'),
  },
  backup: {
    summary: 'Copy the store, also while a gateway runs on it',
    load: () => import('./cli/backup.ts'),
  },
  restore: {
    summary: 'Put a backup where the store will be',
    load: () => import('./cli/restore.ts'),
  },
  simulate: {
    summary: 'Run a scenario in virtual time, without protection and under one or two policies',
    load: () => import('./cli/simulate.ts'),
  },
  advise: {
    summary: 'How many messages a week are best, from what recipients did',
    load: () => import('./cli/advise.ts'),
  },
  export: {
    summary: 'Recorded traffic, without addresses and contents, for sluice replay',
    load: () => import('./cli/export.ts'),
  },
  replay: {
    summary: 'What a policy would have made of recorded traffic',
    load: () => import('./cli/replay.ts'),
  },
  explain: {
    summary: 'Why a notification was sent, waits, or was suppressed',
    load: () => import('./cli/explain.ts'),
  },
  recipient: { summary: 'A person’s limits and timeline', load: () => import('./cli/recipient.ts') },
  backlog: {
    summary: 'What waits, why, and when it will be gone',
    load: () => import('./cli/backlog.ts'),
  },
  top: { summary: 'What happens now, redrawn each second', load: () => import('./cli/top.ts') },
  list: { summary: 'Notifications, newest first', load: () => import('./cli/list.ts') },
  tail: { summary: 'Changes of state as they happen', load: () => import('./cli/tail.ts') },
  send: { summary: 'Send one notification, to try the gateway out', load: () => import('./cli/send.ts') },
  decide: {
    summary: 'The decision that a notification would get now',
    load: () => import('./cli/decide.ts'),
  },
  cancel: { summary: 'Cancel a notification that still waits', load: () => import('./cli/cancel.ts') },
  job: { summary: 'How far a batch in the background is', load: () => import('./cli/job.ts') },
  health: { summary: 'Is the gateway ready to accept', load: () => import('./cli/health.ts') },
  pools: { summary: 'The provider accounts', load: () => import('./cli/pools.ts') },
  'dead-letters': {
    summary: 'What waits outside the normal flow; redrive it',
    load: () => import('./cli/dead-letters.ts'),
  },
  sandbox: {
    summary: 'Run a server that speaks the providers’ shapes and carries nothing',
    load: () => import('./cli/sandbox.ts'),
  },
  token: {
    summary: 'A token for trying out, signed with the secret of the configuration',
    load: () => import('./cli/token.ts'),
  },
  hold: { summary: 'Take an account out, or stop notifications', load: () => import('./cli/hold.ts') },
  hash: { summary: 'How the log names a recipient', load: () => import('./cli/hash.ts') },
  schema: {
    summary: 'The JSON Schema of sluice.yaml or of a policy, for editors',
    load: () => import('./cli/schema.ts'),
  },
}

export async function main(args: readonly string[], io: Io): Promise<number> {
  const [name, ...rest] = args
  try {
    if (name === undefined || name === '--help' || name === '-h' || name === 'help')
      return await help(rest, name, io)
    if (name === '--version' || name === '-v' || name === '-V' || name === 'version') {
      io.out(version)
      return exitCodes.ok
    }
    return await runCommand(name, rest, io)
  } catch (error) {
    return failed(error, io, rest.includes('--json'))
  }
}

async function runCommand(name: string, args: readonly string[], io: Io): Promise<number> {
  const { form, run } = await commandOf(name).load()
  const read = readArguments(form, args)
  if (read !== undefined) return run(read, io)
  io.out(helpOf(form))
  return exitCodes.ok
}

async function help([of]: readonly string[], asked: string | undefined, io: Io): Promise<number> {
  if (asked === 'help' && of !== undefined) return await runCommand(of, ['--help'], io)
  const list = Object.entries(commands).map(([name, { summary }]) => [name, summary] as const)
  const text = [
    'Sluice, a gateway that keeps notifications within their limits.',
    '',
    'Usage: sluice <command> [options]',
    '',
    'Commands:',
    ...columns(list),
    '',
    'Options:',
    ...columns([
      ['--help', 'Show this help; after a command, that of the command'],
      ['--version', 'Show the version'],
    ]),
    '',
    'Examples:',
    '  sluice serve',
    '      Run on http://127.0.0.1:8080 with the defaults',
    '  sluice check --config sluice.yaml',
    '      See what a configuration means',
  ].join('\n')
  // A call without a command is a mistake; the help says how to fix it.
  if (asked === undefined) io.err(text)
  else io.out(text)
  return asked === undefined ? exitCodes.usage : exitCodes.ok
}

function commandOf(name: string): Command {
  if (Object.hasOwn(commands, name)) return commands[name]!
  const what = name.startsWith('-') ? 'option' : 'command'
  const known = Object.keys(commands)
  throw new SluiceError(
    'BAD_USAGE',
    `unknown ${what} "${plain(name)}"${didYouMean(name, known)}\nSee: sluice --help`,
  )
}

function failed(error: unknown, io: Io, asJson: boolean): number {
  const code =
    error instanceof SluiceError && errors[error.code].status === exitCodes.usage
      ? exitCodes.usage
      : exitCodes.failure
  if (asJson) {
    io.err(JSON.stringify({ error: errorJson(error) }))
    return code
  }
  if (error instanceof SluiceError) io.err(`sluice: ${titled(error)}`)
  else if (error instanceof Failure)
    io.err(`sluice: ${error.message}${error.hint === undefined ? '' : `\n${error.hint}`}`)
  // A defect: the stack helps to find it.
  else io.err(`sluice: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  return code
}

/** The error of a command that was asked for JSON: its code, its message, and the way out where one is known. */
function errorJson(error: unknown): { code: string; message: string; hint?: string } {
  if (error instanceof Failure) {
    const { code, message, hint } = error
    return { code, message, ...(hint === undefined ? {} : { hint }) }
  }
  if (!(error instanceof SluiceError)) return { code: 'INTERNAL', message: String(error) }
  const [message = '', ...hint] = error.message.split('\n')
  return { code: error.code, message, ...(hint.length === 0 ? {} : { hint: hint.join('\n') }) }
}

/** Formats a list of mistakes below its title. */
function titled(error: SluiceError): string {
  if (error.errors === undefined || error.errors.length === 0) return error.message
  return `${errors[error.code].title.toLowerCase()}\n${error.message.replace(/^/gm, '  ')}`
}

/** Time in which the log hears that its reader has gone, ms. */
const logHearsMs = 100

/** Runs the command line of this process and exits with its code. */
export async function runProcess(): Promise<never> {
  // A closed pipe ends the command: `sluice dead-letters list | head` ends when head does.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    const code = error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failure
    // Where nobody reads the log either, pino hears of that by now: at an exit it would try for ever to write what is left.
    setTimeout(() => process.exit(code), logHearsMs)
  })
  const code = await main(process.argv.slice(2), processIo())
  // A pipe takes as much as its reader leaves room for; text that is still buffered would be lost at the exit.
  for (const stream of [process.stdout, process.stderr])
    await new Promise<void>((resolve) => stream.write('', () => resolve()))
  return process.exit(code)
}

if (import.meta.main) await runProcess()
