/**
 * What a command has to do with the world around it: its variables, its working folder, and the two streams it
 * writes to. A command is a function of its arguments and this, and answers its exit code.
 */
import { createInterface } from 'node:readline/promises'

export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** Whether a recipient may see colours: standard output is a terminal, and NO_COLOR is not set. */
  readonly colours: boolean
  /** A line, or several, to standard output. */
  out(text: string): void
  /** A line, or several, to standard error. */
  err(text: string): void
  /** Asks a recipient for a line; absent where nobody sits at a terminal. */
  readonly ask?: (question: string) => Promise<string>
}

export const exitCodes = { ok: 0, failure: 1, usage: 2 } as const

/** Something went wrong that is nobody's mistake in the command: exit code 1. The message tells the way out. */
export class Failure extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'Failure'
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
    env: process.env,
    cwd: process.cwd(),
    colours: process.stdout.isTTY === true && wanted,
    out: (text) => void process.stdout.write(`${text}\n`),
    err: (text) => void process.stderr.write(`${text}\n`),
  }
}
