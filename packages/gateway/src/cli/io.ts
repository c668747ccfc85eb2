/**
 * The environment of a command: its variables, its working folder, and the streams it writes to. A command is a
 * function of its arguments and this, and returns its exit code.
 */
import { once } from 'node:events'
import { createInterface } from 'node:readline/promises'

export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** True where standard output is a terminal and NO_COLOR is not set. */
  readonly colours: boolean
  /** Writes one or more lines to standard output. */
  out(text: string): void
  /** Resolves when standard output has taken what was written; absent where it takes everything at once. */
  readonly drained?: () => Promise<void>
  /** Writes one or more lines to standard error. */
  err(text: string): void
  /** Replaces the last line of standard error, for a progress bar; absent where it is no terminal. */
  readonly redraw?: (line: string) => void
  /** Prompts for a line; absent where standard input is no terminal. */
  readonly ask?: (question: string) => Promise<string>
}

export const exitCodes = { ok: 0, failure: 1, usage: 2 } as const

/** A failure that is no mistake in the command line: exit code 1. The message says how to fix it. */
export class Failure extends Error {
  /** The code of the gateway's refusal, or `FAILED`. */
  readonly code: string
  /** The way out, for the line below the message. */
  readonly hint: string | undefined

  constructor(
    message: string,
    options: ErrorOptions & { readonly code?: string; readonly hint?: string } = {},
  ) {
    super(message, options)
    this.name = 'Failure'
    this.code = options.code ?? 'FAILED'
    this.hint = options.hint
  }
}

async function askAtTerminal(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return await terminal.question(question)
  } finally {
    terminal.close()
  }
}

export function processIo(): Io {
  const wanted = !process.env.NO_COLOR && process.env.TERM !== 'dumb'
  const isAttended = process.stdin.isTTY === true && process.stderr.isTTY === true
  return {
    ...(isAttended ? { ask: askAtTerminal } : {}),
    ...(process.stderr.isTTY === true
      ? { redraw: (line: string) => void process.stderr.write(`\r\u001b[2K${line}`) }
      : {}),
    env: process.env,
    cwd: process.cwd(),
    colours: process.stdout.isTTY === true && wanted,
    out: (text) => void process.stdout.write(`${text}\n`),
    drained: async () => {
      if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
    },
    err: (text) => void process.stderr.write(`${text}\n`),
  }
}
