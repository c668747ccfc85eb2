/** Lua and commands of Redis in the process itself: what our scripts use answers as on a real Redis, at its edges too. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from '@redis/client'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { runScript } from '../../../../src/adapters/state/lua/script-runner.ts'
import { startSimRedis } from '../../../fleet/sim-redis.ts'

/** Bodies of scripts; each answers a list, and begins without keys. */
const bodies: readonly string[] = [
  // Numbers and texts.
  `return { 7 % 3, -7 % 3, 7.9, -7.9, '10' + 5, 2 ^ 10, tostring(1e15), tostring(0.1), 281474976710655 .. '', 1e13 .. '' }`,
  `return { string.format('%016d %.0f %02x %s', 42, 1.5e12, 11, 'x'), #'a\\0b', 'a' .. 1 .. 2.5 }`,
  `return { string.sub('abcdef', 2, -2), string.sub('abc', 0), string.sub('abc', 3, 2), string.sub('abc', -2) }`,
  `return { string.byte('abc', -1), string.byte('abc', 1, 9), string.char(0, 128, 255), string.rep('ab', 3) }`,
  `local a, b = string.find('a.b.c', '.', 3, true) local c = string.find('abc', 'x', 1, true) return { a, b, c or 'none' }`,
  `return { string.match('r12,345,6', '^r%d+,(%d+),(%d)') }`,
  `return { string.gsub('a-b', '.', function(each) if each == 'b' then return 'c' end end) }`,
  `local found = {} for k, v in string.gmatch('a=1;b=2', '(%a)=(%d)') do found[#found + 1] = k .. v end return found`,
  `return { tonumber('12'), tonumber('x') or 'none', tonumber({}) or 'none', type(nil), type(false), type({}) }`,
  `local ok, message = pcall(function() return nil + 1 end) return { ok and 1 or 0 }`,
  `local ok = pcall(function() return 1 < '2' end) return { ok and 1 or 0, '10' < '9' and 1 or 0 }`,
  // Tables.
  `local t = { 1, 2, 3 } t[2] = nil t[3] = nil t[#t + 1] = 'x' return { #t, t[1], t[2] }`,
  `local t = {} t[2] = 'b' t[1] = 'a' return { #t, table.concat(t, '-') }`,
  `local t = { 5, 1, 3 } table.sort(t, function(a, b) return a > b end) table.insert(t, 1, 9) return { table.remove(t), unpack(t) }`,
  `local a, b = 1, 2 a, b = b, a local t = {} t[#t + 1], t[#t + 2] = a, b return { a, b, #t }`,
  `local sum = 0 for i = 10, 1, -3 do sum = sum + i end local i = 0 repeat i = i + 1 until i == 4 return { sum, i }`,
  `local function two() return 1, 2 end return { two(), (two()), two() }`,
  `local fs = {} for i = 1, 3 do fs[i] = function() i = i + 1 return i end end return { fs[1](), fs[1](), fs[3]() }`,
  `return { 1, nil, 3 }`,
  `return { false, true, { ok = 'fine' }, 'x' }`,
  // JSON, MessagePack and struct.
  `return { cjson.encode({}), cjson.encode({ 1, 'a/"\\n', { 2.5 } }), cjson.encode({ a = 1e14 }), cjson.encode({ false }) }`,
  `return { cjson.encode(cjson.decode('{"a":[1,2,{"b":"\\\\u00e9"}]}')), cjson.decode('[null]')[1] == nil and 1 or 0 }`,
  `local t = cmsgpack.unpack(cmsgpack.pack({ 1, nil, 3 })) return { t[1], t[3], #t }`,
  `return { cmsgpack.pack({ 1, -1, 127, 128, 65536, 1.5, 'x', true }), cmsgpack.unpack(cmsgpack.pack(5)) }`,
  `return { struct.pack('>I6I2', 281474976710655, 7), struct.pack('>cI3I2', 'B', 1, 2), struct.unpack('>I4I6', '000000000000', 2) }`,
  `return { pcall(struct.unpack, '>I6', 'abc') and 1 or 0 }`,
  // Commands.
  `redis.call('HSET', KEYS[1], 'a', 1, 'b', 2.5) redis.call('HDEL', KEYS[1], 'a', 'b') return { redis.call('EXISTS', KEYS[1]) }`,
  `redis.call('HSET', KEYS[1], 'a', 'x') return { redis.call('HSET', KEYS[1], 'a', 'y', 'c', 'z'), redis.call('HMGET', KEYS[1], 'a', 'n', 'c'), redis.call('HLEN', KEYS[1]), redis.call('HGET', KEYS[1], 'n') }`,
  `for i = 1, 4 do redis.call('ZADD', KEYS[1], i, 'm' .. i) end redis.call('ZADD', KEYS[1], '+inf', 'z') redis.call('ZADD', KEYS[1], 'NX', 9, 'm1')
   return { redis.call('ZRANGEBYSCORE', KEYS[1], '(2', '+inf'), redis.call('ZRANGEBYSCORE', KEYS[1], 2, '(4'), redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'LIMIT', 1, 2), redis.call('ZSCORE', KEYS[1], 'z'), redis.call('ZSCORE', KEYS[1], 'm1'), redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', 3) }`,
  `redis.call('SET', KEYS[1], 'abc') redis.call('APPEND', KEYS[1], 'def') redis.call('SETRANGE', KEYS[1], 8, 'x') return { redis.call('GETRANGE', KEYS[1], 1, -1), redis.call('GETRANGE', KEYS[1], -3, -2), redis.call('STRLEN', KEYS[1]) }`,
  `redis.call('SET', KEYS[1], 1) return { redis.pcall('HGET', KEYS[1], 'a').err, redis.call('TYPE', KEYS[1]).ok, redis.call('PTTL', KEYS[1]), redis.call('DEL', KEYS[1]), redis.call('PTTL', KEYS[1]) }`,
]

test('scripts answer in the process itself as on a real Redis', needs('redis'), async (t) => {
  const redis = await startSimRedis()
  const client = await createClient({ socket: { path: redis.url, tls: false }, RESP: 2 }).connect()
  t.after(async () => {
    client.destroy()
    await redis.stop()
  })
  for (const [index, body] of bodies.entries()) {
    const expected = await client.sendCommand(['EVAL', body, '1', `key-${index}`], {
      typeMapping: { 36: Buffer },
    })
    const script = { text: body, sha: '', inBytes: true }
    assert.deepEqual(runScript(new Map(), script, [`key-${index}`], []), expected, body)
  }
})
