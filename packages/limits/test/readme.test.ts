/** The examples of both READMEs must run and print what stands below them; the guide's store must pass the suite. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import process from 'node:process'
import { it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createLimits, limit, memoryStore } from '../src/index.ts'

const AsyncFunction = (async () => {}).constructor as new (
  ...names: string[]
) => (...values: unknown[]) => Promise<void>

for (const [whose, path] of [
  ['the package', '../README.md'],
  ['the project', '../../../README.md'],
] as const) {
  it(`the example in the README of ${whose} prints what stands below it`, async () => {
    const readme = await readFile(new URL(path, import.meta.url), 'utf8')
    const [, code, output] = /```ts\n(.*?)```\s*```text\n(.*?)```/s.exec(readme)!
    const lines: string[] = []
    const log = (...values: unknown[]) => lines.push(values.map(String).join(' '))
    const body = code!.replace(/^import .*\n/, '')
    const run = new AsyncFunction('createLimits', 'limit', 'memoryStore', 'console', body)
    await run(createLimits, limit, memoryStore, { log })
    assert.equal(`${lines.join('\n')}\n`, output)
  })
}

it('the store of the guide passes the suite as the guide calls it', async () => {
  const guide = await readFile(new URL('../../../docs/guides/writing-a-store.md', import.meta.url), 'utf8')
  const code = [...guide.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]).join('\n')
  // Below node_modules, where the package finds itself by name.
  const folder = new URL('../../../node_modules/.cache/guide/', import.meta.url)
  const file = fileURLToPath(new URL(`${process.pid}.test.mjs`, folder))
  await mkdir(folder, { recursive: true })
  await writeFile(file, stripTypeScriptTypes(code))
  try {
    const env = { ...process.env }
    delete env.NODE_TEST_CONTEXT
    const args = ['--conditions=sluice-source', '--test', file]
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
    assert.equal(status, 0, stdout)
    assert.match(stdout, /pass [1-9]\d+\n/)
  } finally {
    await rm(file)
  }
})
