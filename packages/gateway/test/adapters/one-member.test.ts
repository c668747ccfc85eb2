import assert from 'node:assert/strict'
import { createOneMember } from '../../src/adapters/one-member.ts'
import { createRandom } from '../../src/adapters/random.ts'
import { exerciseMembers } from '../../src/conformance/members.ts'

const clock = { now: () => 1_000_000 }

exerciseMembers(
  'One process',
  () => createOneMember(createRandom(), clock),
  async (condition) => assert.ok(condition(), 'at once'),
)
