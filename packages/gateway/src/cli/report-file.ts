/** The file of `--report`. */
import { closeSync, existsSync, openSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { badUsage, type CommandForm } from './command.ts'
import type { Io } from './io.ts'

/**
 * Checks that a report can be written before the work for it starts, which may take minutes.
 *
 * @throws SluiceError `BAD_USAGE`
 */
export function checkWritable(form: CommandForm, report: string, io: Io): void {
  const file = resolve(io.cwd, report)
  const isNew = !existsSync(file)
  try {
    closeSync(openSync(file, 'a'))
    if (isNew) rmSync(file)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw badUsage(form, `the report cannot be written to "${report}" (${code ?? error})`)
  }
}
