/** The growth of the heap between two collections, and the young generations of threads, which are smaller. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { collectEarlier, growthPercent, isToGiveBack } from '../../src/cli/start-memory.ts'

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

test('a heap of which little lives may grow to several times of it, one of which much lives by a third', () => {
  const growths = [40, 60, 100, 125, 150, 300].map((liveMib) => growthPercent(liveMib, 8_192))
  assert.deepEqual(growths, [250, 250, 120, 40, 30, 30])
  for (const liveMib of [20, 40, 60, 100, 150])
    assert.ok(liveMib * (1 + growthPercent(liveMib, 8_192) / 100) <= 400, `${liveMib} MiB`)
})

test('a heap in a container of 512 MiB may grow by a third', () => {
  assert.equal(growthPercent(40, 512), 30)
})

test('garbage of work is given back where it is much for the machine, or where the rest is long', () => {
  assert.equal(isToGiveBack(60_000, 300, 8_192), false)
  assert.equal(isToGiveBack(600_000, 150, 8_192), true)
  assert.equal(isToGiveBack(50_000, 401, 8_192), false)
  assert.equal(isToGiveBack(60_000, 401, 8_192), true)
  assert.equal(isToGiveBack(60_000, 300, 512), true)
})

/** Counts the collections of the whole heap that the program asks for; V8 marks its own of a process that rests as idle time. */
function countCollections() {
  const isAsked = (entry: object): boolean => {
    const { kind, flags } = (entry as { readonly detail: Readonly<Record<'kind' | 'flags', number>> }).detail
    return kind === constants.NODE_PERFORMANCE_GC_MAJOR && flags === constants.NODE_PERFORMANCE_GC_FLAGS_NO
  }
  let collections = 0
  const observer = new PerformanceObserver((entries) => {
    collections += entries.getEntries().filter(isAsked).length
  })
  observer.observe({ entryTypes: ['gc'] })
  return { count: () => collections, stop: () => observer.disconnect() }
}

test('a process that rests from its start on gives back the memory of the start', async () => {
  const collections = countCollections()
  const stop = collectEarlier(500)
  try {
    for (let tries = 0; collections.count() === 0; tries += 1) {
      assert.ok(tries < 300, 'it is collected within 30 s')
      await sleep(100)
    }
  } finally {
    stop()
    collections.stop()
  }
})

test('a process that has worked and keeps little stays as it is through a short rest', async () => {
  const collections = countCollections()
  const stop = collectEarlier(100)
  try {
    for (const begun = performance.now(); performance.now() - begun < 500; await sleep(1)) {
      const until = performance.now() + 10
      while (performance.now() < until);
    }
    await sleep(1_500)
    assert.equal(collections.count(), 0)
  } finally {
    stop()
    collections.stop()
  }
})

test('a process that rests gives back the memory of its garbage', async () => {
  const stop = collectEarlier(100)
  try {
    // Old enough to be collected with the whole heap only.
    let kept: object[] = []
    for (let n = 0; n < 2e6; n += 1) kept.push({ n })
    const most = process.memoryUsage().heapUsed
    kept = []
    for (let tries = 0; process.memoryUsage().heapUsed > most / 2; tries += 1) {
      assert.ok(tries < 300, 'it is collected within 30 s')
      await sleep(100)
    }
  } finally {
    stop()
  }
})
