/**
 * The arguments of a script: what it does not know ends it with what is wrong, its usage and exit code 2, before
 * anything else is done; `--help` with its usage and 0.
 */
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

export function readArguments<const T extends ParseArgsOptionsConfig>(
  usage: string,
  options: T,
  { allowPositionals = false }: { readonly allowPositionals?: boolean } = {},
) {
  const all = { ...options, help: { type: 'boolean', short: 'h' } } as const
  const parsed = attempt(usage, () => parseArgs({ options: all, allowPositionals }))
  if ('help' in parsed.values && parsed.values.help === true) {
    console.log(usage)
    process.exit(0)
  }
  return parsed
}

function attempt<T>(usage: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    misused(usage, (error as Error).message)
  }
}

export function misused(usage: string, what: string): never {
  console.error(`${what}\n\n${usage}`)
  process.exit(2)
}
