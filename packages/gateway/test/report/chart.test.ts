import assert from 'node:assert/strict'
import { test } from 'node:test'
import { svgChart } from '../../src/report/chart.ts'

const chart = {
  title: 'A <b>',
  description: 'Rises & falls.',
  x: { label: 'messages', max: 10 },
  y: { label: 'share', max: 1, text: (value: number) => `${value * 100} %` },
} as const

test('a chart has a title, a description, both axes with their units, and what it draws at its place', () => {
  const svg = svgChart({
    ...chart,
    series: [
      {
        kind: 'line',
        name: 'l',
        colour: 1,
        points: [
          [0, 0],
          [10, 1],
        ],
      },
      { kind: 'dots', name: 'd', colour: 2, points: [[5, 0.5, 0.25, 0.75]] },
    ],
    marks: [{ axis: 'x', at: 5, label: 'best' }],
  })
  assert.ok(svg.includes('<title>A &lt;b&gt;</title>\n<desc>Rises &amp; falls.</desc>'))
  for (const text of ['messages', 'share', '20 %', '>10<', 'best']) assert.ok(svg.includes(text), text)
  // 352 by 190 units within the margins.
  assert.ok(svg.includes('points="0,190 352,0"'))
  assert.match(svg, /x1="176" x2="176" y1="142.5" y2="47.5"/)
  assert.match(svg, /cx="176" cy="95"/)
})

test('bars grow from the axis, and on a logarithmic one small values are not hidden by large ones', () => {
  const svg = svgChart({
    ...chart,
    y: { label: 'people', scale: 'log', min: 1, max: 10_000 },
    series: [
      {
        kind: 'bars',
        name: 'b',
        colour: 1,
        width: 1,
        points: [
          [0, 10],
          [1, 10_000],
          [2, 0],
        ],
      },
    ],
  })
  const heights = [...svg.matchAll(/<rect[^>]* height="([\d.]+)"/g)].map(([, height]) => Number(height))
  assert.deepEqual(heights, [47.5, 190, 0])
  for (const text of ['>10<', '>100<', '>1,000<', '>10,000<']) assert.ok(svg.includes(text), text)
})

test('a chart of nothing has axes', () => {
  assert.match(svgChart({ ...chart, x: { label: 'x', max: 0 }, series: [] }), /<title>.*class="axis"/s)
})
