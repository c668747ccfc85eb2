/** Threads have smaller young generations than the gateway's own heap; this test shows that they keep them. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

const program = `
import { Worker } from 'node:worker_threads'
const { collectEarlier } = await import(${JSON.stringify(new URL('../../src/cli/start-memory.ts', import.meta.url).href)})
collectEarlier()
const fill = \`
  const { getHeapSpaceStatistics } = process.getBuiltinModule('node:v8')
  let kept = []
  for (let n = 0; n < 2e6; n += 1) {
    kept.push({ n, text: String(n) })
    if (kept.length > 200_000) kept = []
  }
  const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')
  process.getBuiltinModule('node:worker_threads').parentPort.postMessage(young.physical_space_size)
\`
new Worker(fill, { eval: true, resourceLimits: { maxYoungGenerationSizeMb: 12 } }).on('message', (bytes) => console.log(bytes))
`

test('a thread keeps its own bound of the young generation in a process that has a larger one', () => {
  const args = ['--max-semi-space-size=32', '--input-type=module', '--eval', program]
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  const mebibytes = Number(stdout) / 2 ** 20
  assert.ok(mebibytes > 0 && mebibytes <= 12, `${mebibytes} MiB ${stderr}`)
})
