import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { script, scriptSha } from '../../packages/limits/src/stores/redis-script.ts'
import { luaScript } from '../build/lua.ts'

test('the module of the script holds what its Lua files say (node scripts/build/lua.ts)', () => {
  assert.equal(script, luaScript())
  assert.equal(scriptSha, createHash('sha1').update(script).digest('hex'))
})
