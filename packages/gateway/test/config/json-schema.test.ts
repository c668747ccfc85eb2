import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import fc from 'fast-check'
import { parse } from 'yaml'
import { misfits } from '../../src/config/check.ts'
import { jsonSchemaText } from '../../src/config/json-schema.ts'
import { configSchema } from '../../src/config/schema.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import { changedDocument, seed } from './mutation.ts'

const read = (path: string): string => readFileSync(fileURLToPath(new URL(path, import.meta.url)), 'utf8')
const validatorOf = (name: 'config' | 'policy') =>
  new Ajv({ strict: true, strictTypes: false, strictRequired: false, allErrors: false }).compile(
    JSON.parse(jsonSchemaText(name)),
  )

const example: unknown = parse(read('../../../../examples/sluice.yaml'))
const policy: unknown = parse(read('../../policy/default.yaml'))

test('the published schemas equal those of the code; if not, print them anew with `sluice schema`', () => {
  assert.deepEqual(JSON.parse(read('../../schema/sluice.json')), JSON.parse(jsonSchemaText('config')))
  assert.deepEqual(JSON.parse(read('../../schema/policy.json')), JSON.parse(jsonSchemaText('policy')))
})

test('the published schemas accept the example and the built-in policy, and refuse misspelt keys', () => {
  const [config, rules] = [validatorOf('config'), validatorOf('policy')]
  assert.ok(config(example), JSON.stringify(config.errors))
  assert.ok(rules(policy), JSON.stringify(rules.errors))
  assert.equal(config({ htpp: {} }), false)
  assert.equal(config({ pools: { email: { provider: 'smtp', accounts: [{ id: 'a', rate: '5' }] } } }), false)
  assert.equal(rules({ limits: [{ name: 'a', for: 'all', max: '5/day' }] }), false)
})

test(`the editor schema accepts every configuration that the gateway accepts (SLUICE_SEED=${seed})`, () => {
  const validate = validatorOf('config')
  fc.assert(
    fc.property(changedDocument(example), (document) => {
      if (misfits(configSchema, document, new Map()).length === 0)
        assert.ok(validate(document), JSON.stringify(validate.errors))
    }),
    { seed, numRuns: 800 },
  )
})

test(`the editor schema accepts every policy that the gateway accepts (SLUICE_SEED=${seed})`, () => {
  const validate = validatorOf('policy')
  let taken = 0
  fc.assert(
    fc.property(changedDocument(policy), (document) => {
      try {
        compilePolicy(document)
      } catch {
        return
      }
      taken += 1
      assert.ok(validate(document), JSON.stringify(validate.errors))
    }),
    { seed, numRuns: 800 },
  )
  assert.ok(taken > 100, 'some of the changed policies are policies')
})
