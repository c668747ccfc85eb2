/** The watch of maps: it finds what a map keeps of ids that are over, and names the map by the source that was loaded. */
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { endMemoryWatch, keptInMemory, watchMemory } from './memory-watch.ts'

const { limit } = await import('@sluice/limits')
const { createMemoryState } = await import('../../src/adapters/state/memory.ts')
const { createVirtualClock } = await import('../../src/simulation/clock.ts')

const start = Date.UTC(2026, 10, 21, 12)
const idOf = (index: number): string => `01M7YZMTAG7DWNQBW4HW${String(index).padStart(6, '0')}`

test('the state of the limits forgets instants that passed without a release when others come', async (t) => {
  watchMemory()
  t.after(endMemoryWatch)
  const clock = createVirtualClock(start)
  const state = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })
  const subject = { key: 'tenant', tenant: 'default' }
  const rules = [limit('all', '1/1s')]
  const reserve = (index: number) => state.reserve([{ subject, id: idOf(index), rules }])
  for (let index = 0; index < 100; index += 1) await reserve(index)
  await clock.runUntil(start + 200_000)
  for (let index = 100; index < 300; index += 1) await reserve(index)
  const kept = await keptInMemory((id) => id < idOf(100))
  assert.deepEqual(
    kept.filter(({ name }) => name.startsWith('adapters/state/')).map(({ name }) => name),
    [],
  )
  // The state is alive until here.
  assert.equal((await state.waiting(subject)).length, 199)
})

test('a map is named by its source as it was when the watch was loaded', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-memory-watch-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const pathOf = (path: string): string => join(folder, 'packages', path)
  for (const path of ['gateway/src', 'gateway/test/fleet', 'limits/src'])
    mkdirSync(pathOf(path), { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  const watch = pathOf('gateway/test/fleet/memory-watch.ts')
  copyFileSync(join(import.meta.dirname, 'memory-watch.ts'), watch)
  const source = pathOf('gateway/src/kept.ts')
  writeFileSync(
    source,
    `export function make() {\n  const kept = new Map([['${idOf(1)}', 1]])\n  return kept\n}\n`,
  )
  const other = (await import(pathToFileURL(watch).href)) as typeof import('./memory-watch.ts')
  const { make } = (await import(pathToFileURL(source).href)) as { make(): Map<string, number> }
  other.watchMemory()
  t.after(other.endMemoryWatch)
  const kept = make()
  writeFileSync(source, 'const other = 1\nconst changed = new Map()\n')
  const named = await other.keptInMemory((id) => kept.has(id))
  assert.deepEqual(named, [{ name: 'kept.ts kept', id: idOf(1), count: 1 }])
})
