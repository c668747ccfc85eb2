import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'
import { page, pageFile } from './page.ts'

it('docs/reference/peers.md says what the tables of the peers say', () => {
  const hint = 'run node --conditions=sluice-source packages/limits/test/peers/page.ts'
  assert.equal(readFileSync(pageFile, 'utf8'), page(), hint)
})
