/** The proofs of a fleet on real engines can be started: their tests are there, and their engines are known. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { engines } from '../../../../scripts/services/engines.ts'
import { steps } from './steps.ts'

test('each proof of a fleet has a name of its own, engines that can be started, and a test where it names one', () => {
  assert.equal(new Set(steps.map(({ name }) => name)).size, steps.length)
  for (const { name, file, engines: wanted, env = {} } of steps) {
    const path = file?.replace('*.test.ts', '') ?? ''
    assert.ok(existsSync(new URL(`../${path}`, import.meta.url)), `${name}: ${file}`)
    // The test, or what it imports from beside it, reads the variables that the step sets.
    if (path.endsWith('.ts')) {
      const url = new URL(`../${path}`, import.meta.url)
      const own = readFileSync(url, 'utf8')
      const beside = [...own.matchAll(/from '(\.\/[^']+)'/g)].map(([, file]) => new URL(file!, url))
      const source = [own, ...beside.map((file) => readFileSync(file, 'utf8'))].join('\n')
      for (const variable of Object.keys(env)) assert.ok(source.includes(variable), `${name}: ${variable}`)
    }
    for (const engine of wanted) assert.ok(engine in engines, `${name}: ${engine}`)
  }
})
