/**
 * The Lua of the limiter's Redis store as a module, because a published library must not read files of its own:
 * `node scripts/build/lua.ts` writes it anew. A test holds it against the .lua files, which are the source.
 */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../../packages/limits/src/stores/', import.meta.url))
/** One script of several files, in this order. */
const parts = [
  'redis-quick.lua',
  'redis-book.lua',
  'redis-state.lua',
  'redis-write.lua',
  'redis-decide.lua',
  'redis-rows.lua',
]

/** The script without comments and indentation: it is sent over the wire and lies in the package. */
export function luaScript(): string {
  const lines = parts.flatMap((part) => readFileSync(folder + part, 'utf8').split('\n'))
  return lines
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('--'))
    .join('\n')
}

export function luaModule(): string {
  const script = luaScript()
  const sha = createHash('sha1').update(script).digest('hex')
  const quoted = script
    .replaceAll('\\', '\\\\')
    .replaceAll('`', '\\`')
    .replaceAll('${', '\\${')
    .replaceAll('\n', '\\n')
  return `/** Made of ${parts.join(', ')} by scripts/build/lua.ts; change those, not this. */
export const scriptParts = [${parts.map((part) => `'${part}'`).join(', ')}] as const
export const scriptSha = '${sha}'
export const script = \`${quoted}\`
`
}

if (import.meta.main) writeFileSync(`${folder}redis-script.ts`, luaModule())
