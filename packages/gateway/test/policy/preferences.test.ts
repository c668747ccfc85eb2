import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OptOut, Priority, Recipient } from '../../src/model.ts'
import { channels } from '../../src/model.ts'
import { address, mergeFields, optedOut } from '../../src/policy/preferences.ts'

const marketingMail: OptOut = { category: 'marketing', channel: 'email' }

const rows: readonly (readonly [readonly OptOut[], Priority, boolean])[] = [
  [[], 'normal', false],
  [[marketingMail], 'normal', true],
  [[{ category: 'marketing' }], 'high', true],
  [[{ channel: 'email' }], 'low', true],
  [[{}], 'normal', true],
  [[{ category: 'product' }], 'normal', false],
  [[{ channel: 'sms' }], 'normal', false],
  [[{ category: 'marketing', channel: 'sms' }], 'normal', false],
  [[{ category: 'product', channel: 'email' }], 'normal', false],
  [[{ category: 'product' }, { channel: 'email' }], 'normal', true],
  [[marketingMail], 'critical', true],
  [[{ category: 'marketing' }], 'critical', false],
  [[{ channel: 'email' }], 'critical', false],
  [[{}], 'critical', false],
  [[{}, marketingMail], 'critical', true],
]

for (const [optOuts, priority, expected] of rows) {
  test(`${priority} marketing mail ${expected ? 'stops' : 'passes'} at ${JSON.stringify(optOuts)}`, () => {
    assert.equal(optedOut({ optOuts }, 'marketing', 'email', priority), expected)
  })
}

test('an unknown recipient has not opted out', () => {
  assert.equal(optedOut(null, 'marketing', 'email', 'normal'), false)
  assert.equal(optedOut({}, 'marketing', 'email', 'normal'), false)
})

const stored: Recipient = {
  tenant: 'acme',
  id: 'ada',
  email: 'stored@example.com',
  phone: '+391',
  timeZone: 'Europe/Rome',
  optOuts: [marketingMail],
  quietHours: { default: { from: '22:00', to: '08:00' } },
}

test('the address of the request comes before the stored one', () => {
  assert.equal(address({ id: 'ada', email: 'inline@example.com' }, stored, 'email'), 'inline@example.com')
  assert.equal(address({ id: 'ada' }, stored, 'email'), 'stored@example.com')
  assert.equal(address({ id: 'ada', email: 'inline@example.com' }, stored, 'sms'), '+391')
})

test('without any address the result is undefined', () => {
  assert.equal(address({ id: 'ada' }, stored, 'push'), undefined)
  assert.equal(address({ id: 'ada' }, null, 'email'), undefined)
})

test('on websocket the id is the address', () => {
  for (const channel of channels) {
    assert.equal(address({ id: 'ada' }, undefined, channel), channel === 'websocket' ? 'ada' : undefined)
  }
})

test('merged fields hold the request, and from the record only the missing ones', () => {
  assert.deepEqual(mergeFields({ id: 'ada', email: 'inline@example.com', locale: 'it' }, stored), {
    id: 'ada',
    email: 'inline@example.com',
    phone: '+391',
    timeZone: 'Europe/Rome',
    locale: 'it',
  })
  assert.deepEqual(mergeFields({ id: 'ada' }, null), { id: 'ada' })
})
