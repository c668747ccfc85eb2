import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type LuaModule, luaModule, luaModules } from '../build/lua.ts'
import { shortenLua } from '../build/lua-shorten.ts'

for (const module of Object.keys(luaModules) as LuaModule[]) {
  test(`${module} holds what its Lua files say (node scripts/build/lua.ts)`, () => {
    const url = new URL(`../../packages/limits/src/stores/${module}`, import.meta.url)
    assert.equal(readFileSync(url, 'utf8'), luaModule(module))
  })
}

test('Lua is made short without a change of its meaning', () => {
  const script = `-- what it does
local total, limit = ARGV[1] + 0, 10 -- a comment behind
local function add(count, other)
  local entry = { count = count, [other] = total, 'count -- no comment' }
  for index, total in ipairs(entry) do entry.count = entry.count .. 1 .. index end
  return entry.count - -count, entry.err
end
return redis.call('SET', KEYS[1], (add(limit, total)))`
  assert.equal(
    shortenLua(script),
    `local c,d=ARGV[1]+0,10
local function e(a,f)
local b={a=a,[f]=c,'count -- no comment'}
for g,c in ipairs(b)do b.a=b.a..1 ..g end
return b.a- -a,b.err
end
return redis.call('SET',KEYS[1],(e(d,c)))`,
  )
})

test('a short name is never that of a global, a field of a global or a keyword', () => {
  const names = Array.from({ length: 900 }, (_, index) => `name${index}`)
  const script = `local ${names.join(',')}\nreturn a(b.c,{name1=name0})`
  const [first, second] = shortenLua(script).split('\n')
  const written = first!.replace('local ', '').split(',')
  assert.equal(new Set(written).size, names.length)
  for (const name of ['a', 'b', 'c', 'do', 'if', 'in', 'or']) assert.ok(!written.includes(name), name)
  assert.equal(second, `return a(b.c,{${written[1]}=${written[0]}})`)
})

test('Lua that it does not know is refused', () => {
  for (const script of [
    'local a = [[text]]',
    '--[[ long',
    'local t = { f = function() end }',
    'a = 1 & 2',
    'local a = b:c()',
  ])
    assert.throws(() => shortenLua(script), /not known here/)
})
