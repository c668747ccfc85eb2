/**
 * The library's Lua as modules, because a published library must not read files of its own: `node scripts/build/lua.ts`
 * writes them anew. A test holds them against the .lua files, which are the source.
 */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import wishes from './lua-names.json' with { type: 'json' }
import { noWishes, shortenLua } from './lua-shorten.ts'

const folder = fileURLToPath(new URL('../../packages/limits/src/stores/', import.meta.url))
/** Each module and the files that make its script, in this order. */
export const luaModules = {
  'redis-script.ts': [
    'redis-quick.lua',
    'redis-long.lua',
    'redis-book.lua',
    'redis-log.lua',
    'redis-state.lua',
    'redis-write.lua',
    'redis-decide.lua',
    'redis-rows.lua',
  ],
  'redis-slots-script.ts': ['redis-slots.lua'],
  'redis-bucket-script.ts': ['redis-bucket.lua'],
} as const
export type LuaModule = keyof typeof luaModules

/** The files of a script, one behind the other. */
export function luaSource(module: LuaModule): string {
  return luaModules[module].map((part) => readFileSync(folder + part, 'utf8')).join('\n')
}

/** The shortened script: it is sent over the wire and lies in the package. */
export function luaScript(module: LuaModule): string {
  return shortenLua(luaSource(module), module === 'redis-script.ts' ? wishes : noWishes)
}

/** As the formatter would have it. */
function listOf(parts: readonly string[]): string {
  const quoted = parts.map((part) => `'${part}'`)
  return parts.length < 4 ? `[${quoted.join(', ')}]` : `[\n${quoted.map((part) => `  ${part},\n`).join('')}]`
}

export function luaModule(module: LuaModule): string {
  const parts = luaModules[module]
  const script = luaScript(module)
  const sha = createHash('sha1').update(script).digest('hex')
  const quoted = quotedScript(script)
  return `/** Made of ${parts.join(', ')} by scripts/build/lua.ts; change those, not this. */
export const scriptParts = ${listOf(parts)} as const
export const scriptSha = '${sha}'
export const script = \`${breakLines(quoted)}\`
`
}

/** A script as it stands in a template literal. */
export const quotedScript = (script: string): string =>
  script.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')

/** Breaks long lines within a template literal by `\\`, which leaves nothing in the text. */
export function breakLines(quoted: string): string {
  return `\\\n${quoted.replace(/([^\n]{100,109}[^\n\\])(?=[^\n]{9})/g, '$1\\\n')}`
}

if (import.meta.main) {
  for (const module of Object.keys(luaModules) as LuaModule[])
    writeFileSync(folder + module, luaModule(module))
}
