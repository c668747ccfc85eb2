/** The version of the package that this file belongs to; all packages share one version. */
import { readFileSync } from 'node:fs'

const file = new URL('../package.json', import.meta.url)

export const version = String(
  (JSON.parse(readFileSync(file, 'utf8')) as { readonly version?: unknown }).version,
)
