import assert from 'node:assert/strict'
import { test } from 'node:test'
import { htmlFigure, htmlPage } from '../../src/report/page.ts'

test('a page escapes texts of others, follows dark mode, and loads nothing', () => {
  const page = htmlPage({
    title: '<i>',
    body: [
      htmlFigure({
        heading: '"a" & b',
        svg: '<svg></svg>',
        series: ['<s>'],
        table: { head: ['<h>', 'n'], rows: [['<r>', '1']] },
      }),
    ],
  })
  for (const text of ['<i>', '<s>', '<h>', '<r>']) assert.ok(!page.includes(text), text)
  assert.ok(page.includes('&quot;a&quot; &amp; b') && page.includes('prefers-color-scheme: dark'))
  assert.doesNotMatch(page, /<script|https?:|url\(|@import|\bsrc=/)
  assert.match(page, /<details><summary>Table<\/summary>/)
})
