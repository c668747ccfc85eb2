import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'
import { compilePolicy } from '../../src/policy/compile.ts'

const guide = readFileSync(new URL('../../../../docs/guides/policies.md', import.meta.url), 'utf8')
const examples = [...guide.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => text!)

test('the guide has examples', () => {
  assert.ok(examples.length >= 10, `${examples.length} examples`)
})

for (const [index, example] of examples.entries()) {
  test(`example ${index + 1} of the guide is a valid policy: ${example.split('\n')[1] ?? example}`, () => {
    const { document } = compilePolicy(parse(example))
    for (const section of Object.keys(parse(example)))
      assert.ok(section in document, `${section} is in force`)
  })
}
