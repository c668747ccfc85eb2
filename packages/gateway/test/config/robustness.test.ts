import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { parse, stringify } from 'yaml'
import { loadConfig } from '../../src/config/load.ts'
import { SluiceError } from '../../src/errors.ts'
import { temporaryFolder } from './folder.ts'
import { changedDocument, changedText, seed } from './mutation.ts'

const example = readFileSync(
  fileURLToPath(new URL('../../../../examples/sluice.yaml', import.meta.url)),
  'utf8',
)
const policy = readFileSync(fileURLToPath(new URL('../../policy/default.yaml', import.meta.url)), 'utf8')

/** Loads, and returns the outcome; an error other than a SluiceError that names a place fails the test. */
function outcomeOf(load: () => unknown): 'loaded' | 'refused' {
  try {
    load()
    return 'loaded'
  } catch (error) {
    assert.ok(error instanceof SluiceError, error instanceof Error ? error.stack : String(error))
    assert.ok(error.code === 'INVALID_CONFIG' || error.code === 'INVALID_POLICY')
    assert.ok((error.errors?.length ?? 0) > 0, 'it names what is wrong')
    for (const { message } of error.errors ?? []) assert.ok(message.length > 0)
    return 'refused'
  }
}

test(`a mutated configuration is loaded or refused (SLUICE_SEED=${seed})`, (t) => {
  const cwd = temporaryFolder(t)
  const path = join(cwd, 'changed.yaml')
  const counts = { loaded: 0, refused: 0 }
  const text = fc.oneof(
    changedText(example),
    changedDocument(parse(example)).map((document) => stringify(document)),
  )
  fc.assert(
    fc.property(text, (changed) => {
      writeFileSync(path, changed)
      counts[outcomeOf(() => loadConfig({ path, env: {}, cwd }))] += 1
    }),
    { seed, numRuns: 300 },
  )
  t.diagnostic(JSON.stringify(counts))
  assert.ok(counts.loaded > 20 && counts.refused > 100, 'the changes are neither harmless nor hopeless')
})

test(`a mutated policy is loaded or refused (SLUICE_SEED=${seed})`, (t) => {
  const cwd = temporaryFolder(t)
  const path = join(cwd, 'policy.yaml')
  const counts = { loaded: 0, refused: 0 }
  const text = fc.oneof(
    changedText(policy),
    changedDocument(parse(policy)).map((document) => stringify(document)),
  )
  fc.assert(
    fc.property(text, (changed) => {
      writeFileSync(path, changed)
      counts[outcomeOf(() => loadConfig({ env: { SLUICE_POLICY: path }, cwd }))] += 1
    }),
    { seed, numRuns: 250 },
  )
  t.diagnostic(JSON.stringify(counts))
  assert.ok(counts.loaded > 20 && counts.refused > 100, 'the changes are neither harmless nor hopeless')
})

test(`with any value of a variable the configuration is loaded or refused (SLUICE_SEED=${seed})`, (t) => {
  const cwd = temporaryFolder(t)
  const names = [
    'SLUICE_HTTP_HOST',
    'SLUICE_HTTP_PORT',
    'SLUICE_HTTP_PUBLIC_URL',
    'SLUICE_STORE',
    'SLUICE_STATE',
    'SLUICE_QUEUE',
    'SLUICE_POLICY',
    'SLUICE_TEMPLATES',
    'SLUICE_LOG_LEVEL',
    'SLUICE_UNSUBSCRIBE_SECRET',
    'SLUICE_UNSUBSCRIBE_SECRET_FILE',
    'NOTIFY_RATE_LIMIT_PER_TENANT',
    'NOTIFY_RATE_LIMIT_PER_MODULE',
    'NOTIFY_RABBITMQ_MAX_QUEUE_LENGTH',
    'SLUICE_CONFIG',
    'SLUICE_X',
    'NOTIFY_Y',
  ]
  const value = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom(
      '0',
      '1',
      '8080',
      'unlimited',
      'sqlite:x',
      'sqlite:',
      'localhost',
      '::',
      'https://',
      'https://a',
      '.',
      '/',
      'default',
    ),
  )
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom(...names), value),
      (env) => void outcomeOf(() => loadConfig({ env, cwd })),
    ),
    { seed, numRuns: 200 },
  )
})
