/** Reads the address of a store, as `store` of the configuration has it. */

import type { StoreConfig } from './config.ts'
import { readPostgresAddress } from './postgres-address.ts'
import { readTextFile } from './source.ts'

/**
 * @param resolve makes the path of a file absolute
 * @throws Error with a sentence that says what is expected
 */
export function readStoreAddress(written: string, resolve: (path: string) => string): StoreConfig {
  if (written === 'sqlite::memory:') return { kind: 'sqlite', path: ':memory:' }
  const match = /^sqlite:(?:\/\/(?=\/))?(?!\/\/)(.+)$/.exec(written)
  if (match !== null) return { kind: 'sqlite', path: resolve(match[1]!) }
  if (!/^postgres(ql)?:/.test(written))
    throw new Error('expected sqlite:<path> or postgres://user@host/database')
  const postgres = readPostgresAddress(written, (path) => {
    const read = readTextFile(resolve(path))
    if (!read.ok) throw new Error(`${path} ${read.message}`)
    return read.text
  })
  return { kind: 'postgres', path: postgres.shown, postgres }
}
