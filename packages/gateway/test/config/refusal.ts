/** Invalid configurations, with the exact lines of their refusal. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig } from '../../src/config/load.ts'
import { SluiceError } from '../../src/errors.ts'
import { temporaryFolder } from './folder.ts'

export interface Refusal {
  readonly name: string
  readonly yaml?: string
  readonly env?: Readonly<Record<string, string>>
  readonly files?: Readonly<Record<string, string>>
  readonly says: readonly string[]
}

export const later = 'is not carried by this version yet'
export const rate = 'expected a rate such as 100/s, [100/s, 50000/h] or unlimited'

export function testRefusals(refusals: readonly Refusal[]): void {
  for (const { name, yaml, env = {}, files = {}, says } of refusals) {
    test(`refused with its place and the expected value: ${name}`, (t) => {
      const cwd = temporaryFolder(t, { ...files, ...(yaml === undefined ? {} : { 'sluice.yaml': yaml }) })
      assert.throws(
        () => loadConfig({ env, cwd }),
        (error) => {
          assert.ok(error instanceof SluiceError, String(error))
          assert.equal(error.code, 'INVALID_CONFIG')
          assert.deepEqual(
            error.message.split('\n'),
            says.map((line) => line.replace('$cwd', cwd)),
          )
          assert.equal(error.errors?.length, says.length)
          assert.doesNotMatch(error.message, /canary/, 'secrets are not shown')
          return true
        },
      )
    })
  }
}
