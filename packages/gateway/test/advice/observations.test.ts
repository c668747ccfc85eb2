import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readObservations } from '../../src/advice/observations.ts'
import type { SluiceError } from '../../src/errors.ts'

const header = 'frequency,people,engaged,churned'

test('observations are read by the names of their columns, in any order, with quotes, a mark of UTF-8 and Windows line ends', () => {
  const text =
    '\ufeffsegment, People,engaged,churned,frequency,delivered,complaints\r\n"new, ""2026""\nand later",200,20,1,1.5,300,0\r\n\r\n old ,300,30,2,2,600,1'
  assert.deepEqual(readObservations(text, 'o.csv'), [
    {
      frequency: 1.5,
      people: 200,
      engaged: 20,
      churned: 1,
      delivered: 300,
      complaints: 0,
      segment: 'new, "2026"\nand later',
    },
    { frequency: 2, people: 300, engaged: 30, churned: 2, delivered: 600, complaints: 1, segment: 'old' },
  ])
})

const refused: readonly (readonly [text: string, message: string])[] = [
  ['', 'o.csv:1: frequency: the column is missing'],
  [`${header}\n`, 'o.csv:1: has no line below its header'],
  [`${header},enganged\n1,2,3,4,5`, 'o.csv:1: enganged: is no known column'],
  [`${header},people\n1,2,3,4,5`, 'o.csv:1: people: the column is there twice'],
  [`${header},delivered\n1,2,3,4,5`, 'o.csv:1: delivered and complaints stand together'],
  [
    `${header}\n1,200,20,1\n\n2,200,0.4,1`,
    'o.csv:4: engaged: expected a whole number, not "0.4"; counts, not rates',
  ],
  [`${header}\n1,200,20%,1`, 'o.csv:2: engaged: expected a whole number, not "20%"; counts, not rates'],
  [`${header}\n1,200,20`, 'o.csv:2: has 3 cells, and the header 4'],
  [`${header}\n-1,200,20,1`, 'o.csv:2: frequency: expected messages a week, from 0 to 10080, not "-1"'],
  [`${header}\n1e9,200,20,1`, 'o.csv:2: frequency: expected messages a week'],
  [`${header}\n1,200,201,1`, 'o.csv:2: engaged: 201 of 200 people'],
  [`${header}\n1,200,2,201`, 'o.csv:2: churned: 201 of 200 people'],
  [`${header},delivered,complaints\n1,200,2,1,5,6`, 'o.csv:2: complaints: 6 about 5 delivered'],
  [`${header}\n0,200,2,1`, 'o.csv:2: engaged: nobody engages with no message'],
  [`${header}\n"1,200,2,1\n2,200,2,1`, 'o.csv:2: a quote stands within a cell, or is not closed'],
]
for (const [text, message] of refused) {
  test(`observations are refused with line and column: ${message}`, () => {
    assert.throws(
      () => readObservations(text, 'o.csv'),
      (error: SluiceError) => {
        assert.equal(error.code, 'INVALID_OBSERVATIONS')
        assert.ok(
          error.message.split('\n').some((line) => line.startsWith(message)),
          error.message,
        )
        assert.equal(error.errors?.[0]?.line, Number(/^o\.csv:(\d+)/.exec(message)![1]))
        return true
      },
    )
  })
}

test('a file with many mistakes names some of them', () => {
  const text = [header, ...Array.from({ length: 5_000 }, () => 'x,x,x,x')].join('\n')
  assert.throws(
    () => readObservations(text, 'o.csv'),
    (error: SluiceError) => error.errors!.length === 20,
  )
})
