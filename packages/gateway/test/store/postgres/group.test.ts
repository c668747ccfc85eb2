/** Groups of changes that one call writes: none touches the record of another, and each keeps its turn. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { epoch, settled, someDigest, someNotification } from '../../../src/conformance/store/sample.ts'
import { advance } from '../../../src/model.ts'
import type { Change } from '../../../src/ports.ts'
import { type Groupable, takeGroup, touchedBy } from '../../../src/store/postgres/group.ts'

interface Named extends Groupable {
  readonly name: string
}

const named = (name: string, change: Change, size: Partial<Groupable> = {}): Named => ({
  name,
  touched: touchedBy(change),
  notifications: 1,
  bytes: 1,
  ...size,
})

/** The names of all groups that a queue becomes. */
function groups(queue: Named[]): readonly (readonly string[])[] {
  const taken: string[][] = []
  while (queue.length > 0) taken.push(takeGroup(queue).map(({ name }) => name))
  return taken
}

test('puts changes of different records into one group', () => {
  const changes = Array.from({ length: 20 }, (_, n) => named(`${n}`, { accept: [someNotification()] }))
  assert.deepEqual(groups(changes), [Array.from({ length: 20 }, (_, n) => `${n}`)])
})

test('keeps the order of changes that touch one record, each in a group of its own', () => {
  const row = someNotification()
  const other = named('other', { accept: [someNotification()] })
  const queue = [
    named('accept', { accept: [row] }),
    named('cancel', { moves: [advance(row, [{ at: epoch, status: 'cancelled' }])] }),
    other,
    named('settle', { moves: [settled(row, epoch)] }),
  ]
  assert.deepEqual(groups(queue), [['accept', 'other'], ['cancel'], ['settle']])
})

test('lets many join one digest at once, and closes it apart from them', () => {
  const digest = someDigest()
  const item = () => someNotification({ status: 'digesting', digestId: digest.id })
  const queue = [
    named('open', { digests: [{ kind: 'open', digest }], accept: [item()] }),
    named('join', { digests: [{ kind: 'join', digest }], accept: [item()] }),
    named('close', { digests: [{ kind: 'close', digest, left: 0 }] }),
    named('late', { digests: [{ kind: 'join', digest }], accept: [item()] }),
    named('rival', { digests: [{ kind: 'open', digest: someDigest() }] }),
  ]
  assert.deepEqual(groups(queue), [['open', 'join'], ['close'], ['late'], ['rival']])
})

test('takes an item out of a digest apart from the closing that counts it', () => {
  const digest = someDigest()
  const item = someNotification({ status: 'digesting', digestId: digest.id })
  const queue = [
    named('close', { digests: [{ kind: 'close', digest, left: 0 }] }),
    named('cancel', { moves: [advance(item, [{ at: epoch, status: 'cancelled' }])] }),
  ]
  assert.deepEqual(groups(queue), [['close'], ['cancel']])
})

test('separates a write of a recipient from what was decided under its version', () => {
  const recipient = { tenant: 'acme', id: 'ada' }
  const decidedFor = [{ tenant: 'acme', recipient: 'ada', version: 3 }]
  const queue = [
    named('one', { accept: [someNotification()], decidedFor }),
    named('two', { accept: [someNotification()], decidedFor }),
    named('write', { recipients: [recipient] }),
  ]
  assert.deepEqual(groups(queue), [['one', 'two'], ['write']])
})

test('ends a group at 500 notifications or two megabytes, and lets a larger change go alone', () => {
  const of = (name: string, size: Partial<Groupable>) => named(name, { accept: [someNotification()] }, size)
  const many = Array.from({ length: 7 }, (_, n) => of(`${n}`, { notifications: 100 }))
  assert.deepEqual(groups(many), [
    ['0', '1', '2', '3', '4'],
    ['5', '6'],
  ])
  const large = [of('a', { bytes: 10 }), of('b', { bytes: 2 ** 23 }), of('c', { bytes: 10 })]
  assert.deepEqual(groups(large), [['a'], ['b'], ['c']])
})
