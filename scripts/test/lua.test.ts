import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type LuaModule, luaModule, luaModules, luaScript, luaSource } from '../build/lua.ts'
import { namesOf, shortenLua } from '../build/lua-shorten.ts'

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
    [
      'local n,e=ARGV[1]+0,10',
      "local function t(l,o)local e={l=l,[o]=n,'count -- no comment'}for l,n in ipairs(e)do e.l=e.l..1 ..l end" +
        " return e.l- -l,e.err end return redis.call('SET',KEYS[1],(t(e,n)))",
    ].join('\n'),
  )
})

test('a short name is never that of a global or a keyword', () => {
  const names = Array.from({ length: 900 }, (_, index) => `name${index}`)
  const script = `local ${names.join(',')}\nreturn a(b.c,{name1=name0})`
  const [first, second] = shortenLua(script).split(' return ')
  const written = first!.replace('local ', '').split(',')
  assert.equal(new Set(written).size, names.length)
  for (const name of ['a', 'b', 'do', 'if', 'in', 'or']) assert.ok(!written.includes(name), name)
  assert.equal(second, `a(b.c,{${written[1]}=${written[0]}})`)
})

test('Lua of a kind that is not written here is refused', () => {
  for (const script of ['local a = [[text]]', 'local a = 1 --[[ long ]]', 'local a = b:c()'])
    assert.throws(() => shortenLua(script), /not known here/)
  assert.throws(() => shortenLua('a = 1 & 2'), /SyntaxError/)
})

/** The declaration behind each use of a variable, in the order of the script. */
function bindings(script: string): readonly number[] {
  return namesOf(script)
    .variables.flatMap(({ uses }, declaration) => uses.map((use) => [use, declaration] as const))
    .sort(([a], [b]) => a - b)
    .map(([, declaration]) => declaration)
}

for (const module of Object.keys(luaModules) as LuaModule[]) {
  test(`each name in the shortened ${module} has the declaration that it had`, () => {
    assert.deepEqual(bindings(luaScript(module)), bindings(luaSource(module)))
  })
}

test('a wished letter is given where it hides nothing, and a change of the script loses no other wishes', () => {
  const script = `local outer = 1
local function add(more) return { sum = outer + more } end
return add(2).sum`
  const wishes = { variables: { outer: 'z', add: 'y', more: 'x' }, fields: { sum: 'w' } }
  assert.equal(shortenLua(script, wishes), 'local z=1\nlocal function y(x)return{w=z+x}end return y(2).w')
  const hidden = { variables: { ...wishes.variables, more: 'z' }, fields: {} }
  assert.equal(shortenLua(script, hidden), 'local z=1\nlocal function y(e)return{e=z+e}end return y(2).e')
  const another = `local more = 3\n${script}`
  assert.equal(
    shortenLua(another, wishes),
    'local e=3\nlocal z=1\nlocal function y(e)return{w=z+e}end return y(2).w',
  )
})

test('variables that are never visible together share a name, and one that would hide another does not', () => {
  const script = `local outer = 1
do
  local first = 2
  print(first)
end
do
  local second = outer
  print(second)
end`
  assert.equal(shortenLua(script), 'local e=1 do\nlocal e=2 print(e)end do\nlocal n=e print(n)end')
})
