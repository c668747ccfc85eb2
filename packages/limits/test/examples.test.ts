/**
 * Each example of the library runs as a user would run it, and prints what stands in its last comment. An example that
 * reads REDIS_URL is given a real one.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { needs } from '../../../scripts/services/needs.ts'

const folder = fileURLToPath(new URL('../../../examples/limits/', import.meta.url))
const run = promisify(execFile)

for (const name of readdirSync(folder).filter((file) => file.endsWith('.ts'))) {
  const text = readFileSync(join(folder, name), 'utf8')
  const wanted = /\/\* prints\n([\s\S]*)\*\/\s*$/.exec(text)?.[1]
  const engines = text.includes('REDIS_URL') ? needs('redis') : {}
  it(`the example ${name} prints what it says`, { ...engines, timeout: 60_000 }, async () => {
    assert.ok(wanted, `${name} ends with a comment /* prints … */`)
    const env = { ...process.env, REDIS_URL: process.env.SLUICE_TEST_REDIS }
    const { stdout } = await run(process.execPath, ['--conditions=sluice-source', join(folder, name)], {
      env,
    })
    assert.equal(stdout, wanted)
  })
}
