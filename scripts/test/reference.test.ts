import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readDeclarations } from '../build/declarations.ts'
import { outOfDate } from '../build/reference.ts'

test('docs/reference/limits-api.md says what the docstrings say', () => {
  assert.equal(outOfDate(), undefined, 'run node scripts/build/reference.ts')
})

function declarationsOf(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-declarations-'))
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
    return readDeclarations(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('a declaration is found through those who pass it on, with its own comment and what it names', () => {
  const { exportsOf, closure, foreignOf } = declarationsOf({
    'index.d.ts': `/** Options of the file. */\nexport { take } from './take.ts';\nexport * from './rule.ts';\n`,
    'take.d.ts': `/** Options of the file. */\nimport type { Rule } from './rule.ts';\nimport type { Test } from 'node:test';
/** Takes. */\nexport declare function take(rule: Rule): void;\nexport declare function other(test: Test): void;\n`,
    'rule.d.ts': `interface Hidden {\n    /** In days; weeks */\n    a: '}';\n}
/** A rule. */\nexport interface Rule {\n    hidden: Hidden;\n}\nexport {};\n`,
  })
  const own = exportsOf('index.d.ts')
  assert.deepEqual(
    own.map(({ name, comment }) => [name, comment]),
    [
      ['take', '/** Takes. */'],
      ['Rule', '/** A rule. */'],
    ],
  )
  const take = own.slice(0, 1)
  assert.deepEqual(
    closure(take).map(({ name }) => name),
    ['take', 'Rule', 'Hidden'],
  )
  assert.deepEqual(foreignOf(closure(take)), [])
})

test('what the reader of declarations does not follow is an error, not an omission', () => {
  assert.throws(
    () => declarationsOf({ 'index.d.ts': `export { a as b } from './a.ts';\n` }),
    /a as b is renamed/,
  )
  assert.throws(() => declarationsOf({ 'index.d.ts': `export default 5;\n` }), /not understood/)
  assert.throws(() => declarationsOf({ 'index.d.ts': `interface A {\n` }), /does not end/)
})
