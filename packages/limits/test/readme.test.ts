/** The README's example must run and print what the README says. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { it } from 'node:test'
import { createLimits, limit, memoryStore } from '../src/index.ts'

it('the example of the README prints what stands below it', async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8')
  const [, code, output] = /```ts\n(.*?)```\s*```text\n(.*?)```/s.exec(readme)!
  const lines: string[] = []
  const print = (...values: unknown[]) => lines.push(values.join(' '))
  const body = code!.replace(/^import .*\n/, '')
  const AsyncFunction = (async () => {}).constructor as new (
    ...names: string[]
  ) => (...values: unknown[]) => Promise<void>
  const run = new AsyncFunction('createLimits', 'limit', 'memoryStore', 'console', body)
  await run(createLimits, limit, memoryStore, { log: (...values: unknown[]) => print(...values.map(String)) })
  assert.equal(`${lines.join('\n')}\n`, output)
})
