/** The shares of the members of a consumer group. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { assignPartitions } from '../../../src/intake/kafka/assign.ts'

/** Assigns the partitions of topics, by their number, to members with the topics that they take. */
function sharesOf(
  topics: Readonly<Record<string, number>>,
  members: Readonly<Record<string, readonly string[]>>,
) {
  type Arguments = Parameters<typeof assignPartitions>
  const shares = assignPartitions(
    'a',
    new Map(Object.entries(members).map(([memberId, topics]) => [memberId, { memberId, topics }])) as never,
    new Set(members.a),
    {
      topics: new Map(Object.entries(topics).map(([name, partitionsCount]) => [name, { partitionsCount }])),
    } as unknown as Arguments[3],
  )
  return Object.fromEntries(
    shares.map(({ memberId, assignments }) => [
      memberId,
      [...assignments.values()].map(({ topic, partitions }) => `${topic}:${partitions}`).join(' '),
    ]),
  )
}

it('gives each partition to a member that takes its topic', () => {
  assert.deepEqual(sharesOf({ mails: 4, texts: 3 }, { b: ['texts'], a: ['mails'] }), {
    a: 'mails:0,1,2,3',
    b: 'texts:0,1,2',
  })
  assert.deepEqual(
    sharesOf({ mails: 4, texts: 3 }, { d: ['texts'], c: ['mails'], b: ['texts'], a: ['mails'] }),
    { a: 'mails:0,2', b: 'texts:0,2', c: 'mails:1,3', d: 'texts:1' },
  )
})

it('gives nothing to a member beyond the partitions', () => {
  assert.deepEqual(sharesOf({ mails: 1 }, { a: ['mails'], b: ['mails'] }), { a: 'mails:0', b: '' })
})
