import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isTimeZone } from '../src/time-zone.ts'

test('time zones are names of the IANA database', () => {
  const links =
    'UTC Europe/Rome America/New_York Asia/Kathmandu utc EST PRC Etc/GMT+5 US/Pacific Asia/Calcutta Europe/Kyiv europe/rome'.split(
      ' ',
    )
  for (const name of links) assert.equal(isTimeZone(name), true, name)
  const others = '|+02:00|-0500|+02|UTC+2|GMT+2|Z|PST|BST|ist|SystemV/EST5|Europe/Nowhere| Europe/Rome'
  for (const name of others.split('|')) assert.equal(isTimeZone(name), false, name)
})

test('time zones are told from other names also when more were asked for than are remembered', () => {
  for (let count = 0; count < 3_000; count += 1) assert.equal(isTimeZone(`Nowhere/${count}`), false)
  for (const again of [1, 2]) {
    assert.equal(isTimeZone('Europe/Rome'), true, `${again}`)
    assert.equal(isTimeZone('Nowhere/1'), false, `${again}`)
  }
  assert.equal(isTimeZone(`Europe/${'R'.repeat(100_000)}ome`), false)
  assert.equal(isTimeZone(7 as unknown as string), false)
})
