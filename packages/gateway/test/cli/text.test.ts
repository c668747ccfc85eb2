import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Io } from '../../src/cli/io.ts'
import { indent, instant, instantFrom, paint, plain, table } from '../../src/cli/text.ts'

const io = { colours: false } as Io

test('columns are as wide as their widest cell', () => {
  const text = table(
    io,
    [
      { title: 'name', cell: (row: { n: string; c: number | null }) => row.n },
      { title: 'count', cell: (row) => row.c, align: 'right' },
    ],
    [
      { n: 'a', c: 5 },
      { n: 'longer', c: null },
    ],
  )
  assert.equal(text, 'name    count\na           5\nlonger      –')
})

test('colours do not move the columns', () => {
  const coloured = table(
    { colours: true } as Io,
    [
      { title: 'state', cell: (row: string) => row, style: () => 'red' },
      { title: 'x', cell: () => 1 },
    ],
    ['open'],
  )
  assert.ok(coloured.endsWith('\u001b[31mopen\u001b[39m   1'))
  assert.equal(paint(io, 'red', 'a'), 'a')
})

test('text from outside cannot drive the terminal', () => {
  assert.equal(plain('a\u001b[2Jb\nc\u009bd'), 'a [2Jb c d')
  const titled = table(io, [{ title: 't', cell: (row: string) => row }], ['\u001b]0;title\u0007'])
  assert.ok(!titled.includes('\u001b') && !titled.includes('\u0007'))
})

test('instants are shown with their distance from now', () => {
  const now = Date.parse('2026-11-22T00:00:00.000Z')
  assert.equal(instant('2026-11-22T07:00:00.000Z'), '2026-11-22 07:00:00Z')
  assert.equal(instant('2026-11-22T07:00:00.123Z'), '2026-11-22 07:00:00.123Z')
  assert.equal(instantFrom('2026-11-22T07:00:00.000Z', now), '2026-11-22 07:00:00Z (in 7 h)')
  assert.equal(instantFrom('2026-11-22T00:00:01.500Z', now), '2026-11-22 00:00:01.500Z (in 2 s)')
  assert.equal(instantFrom('2026-11-21T07:00:00.000Z', now), '2026-11-21 07:00:00Z')
  assert.equal(instantFrom(null, now), '–')
})

test('lines are indented, empty ones are not', () => {
  assert.equal(indent('a\n\nb'), '  a\n\n  b')
})
