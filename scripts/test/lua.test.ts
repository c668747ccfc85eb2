import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type LuaModule, luaModule, luaModules } from '../build/lua.ts'

for (const module of Object.keys(luaModules) as LuaModule[]) {
  test(`${module} holds what its Lua files say (node scripts/build/lua.ts)`, () => {
    const url = new URL(`../../packages/limits/src/stores/${module}`, import.meta.url)
    assert.equal(readFileSync(url, 'utf8'), luaModule(module))
  })
}
