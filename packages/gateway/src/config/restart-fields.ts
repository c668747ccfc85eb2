/** Tells which changes of a configuration take a restart: all but secrets, keys, templates and the policy. Pure. */
import type { Config } from './config.ts'
import { describeConfig } from './describe.ts'

/** Returns the paths of the changed fields, such as `pools.sms`; none where only the others differ. */
export function restartFields(before: Config, after: Config): readonly string[] {
  const fields = differing(describeConfig(before), describeConfig(after), '')
  // The folder of the templates and the file of the policy may be other ones: they are read anew.
  return fields.filter((field) => field !== 'templates' && field !== 'policy')
}

function differing(before: unknown, after: unknown, path: string): string[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  const isSection = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  // Two levels name the place well enough: an account has too many fields.
  if (!isSection(before) || !isSection(after) || path.includes('.')) return [path]
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys].flatMap((key) => differing(before[key], after[key], path === '' ? key : `${path}.${key}`))
}
