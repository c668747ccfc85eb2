/**
 * Searches letters for the names in the Redis limiter's script that compress better than those which lua-shorten.ts
 * gives by itself: `node scripts/build/lua-names.ts [minutes]`, after `npm run build -- limits`, goes on from
 * lua-names.json and writes it anew; then `node scripts/build/lua.ts` writes the script. It changes one name at
 * random and keeps what makes a bundle no larger; 20 minutes save about 0.25 kB of one. A change of the Lua loses the
 * letters of the names that it adds to or takes from, and no others.
 */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { deflateRawSync } from 'node:zlib'
import { luaScript, luaSource, quotedScript } from './lua.ts'
import wishes from './lua-names.json' with { type: 'json' }
import { areInConflict, letters, namesOf, shortNames, tokensOf, type Variable, write } from './lua-shorten.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const endsAt = performance.now() + 60_000 * Number(process.argv[2] ?? 20)
const source = luaSource('redis-script.ts')
const tokens = tokensOf(source)
const { variables, fields, globals } = namesOf(source)
const short = shortNames({ variables, fields, globals }, wishes)
const groups = [...Map.groupBy(variables, ({ name }) => name)]
const fieldUses = [...fields.values()]
const rivals = new Map(
  variables.map((one) => [one, variables.filter((other) => other !== one && areInConflict(one, other))]),
)
const letterOf = (one: Variable): string => short.get(one.from)!

/** A bundle of the Redis limiter in front of the script, and the part behind it that compression sees with it. */
const [before, behind] = bundleAround(quotedScript(luaScript('redis-script.ts')))
const sizeNow = (): number =>
  deflateRawSync(before + quotedScript(write(tokens, short)) + behind, { level: 9 }).length

function bundleAround(quoted: string): readonly [string, string] {
  const args = ['--bundle', '--minify', '--format=esm', '--platform=node']
  const input = `export { createLimits, limit, redisStore } from '${root}packages/limits/dist/index.js'`
  const { stdout } = spawnSync(`${root}node_modules/.bin/esbuild`, args, {
    input,
    cwd: root,
    encoding: 'utf8',
  })
  const [start, end] = stdout.split(quoted)
  if (end === undefined) throw new Error('packages/limits/dist has another script: npm run build -- limits')
  return [start!, end.slice(0, 6_000)]
}

/** Random numbers below 1 with a fixed seed, so that a search can be repeated. */
let state = 7
function random(): number {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff
  return state / 0x8000_0000
}
const oneOf = <T>(list: ArrayLike<T>): T => list[Math.floor(random() * list.length)]!

type Change = readonly (readonly [offset: number, letter: string])[]
const to = (uses: readonly number[], letter: string): Change => uses.map((offset) => [offset, letter])

/** Gives variables a letter, and their old one to those in their way that have it; undefined where that cannot be. */
function changeOf(chosen: readonly Variable[], letter: string): Change | undefined {
  const old = letterOf(chosen[0]!)
  if (letter === old || globals.has(letter)) return undefined
  const displaced = chosen.flatMap((one) =>
    rivals.get(one)!.filter((other) => !chosen.includes(other) && letterOf(other) === letter),
  )
  const isBlocked = displaced.some((one) =>
    rivals.get(one)!.some((other) => ![...displaced, ...chosen].includes(other) && letterOf(other) === old),
  )
  if (isBlocked || (displaced.length > 0 && chosen.some((one) => letterOf(one) !== old))) return undefined
  return [
    ...chosen.flatMap(({ uses }) => to(uses, letter)),
    ...displaced.flatMap(({ uses }) => to(uses, old)),
  ]
}

function fieldChangeOf(uses: readonly number[], letter: string): Change {
  const old = short.get(uses[0]!)!
  const other = fieldUses.find(([first]) => short.get(first!) === letter) ?? []
  return [...to(other, old), ...to(uses, letter)]
}

function nextChange(): Change | undefined {
  const dice = random()
  if (dice < 0.1) return fieldChangeOf(oneOf(fieldUses), oneOf(letters))
  return changeOf(dice < 0.55 ? oneOf(groups)[1] : [oneOf(variables)], oneOf(letters))
}

let best = sizeNow()
console.log(`${best} bytes`)
while (performance.now() < endsAt) {
  const change = nextChange()
  if (change === undefined) continue
  const undo = change.map(([offset]) => [offset, short.get(offset)!] as const)
  for (const [offset, letter] of change) short.set(offset, letter)
  const size = sizeNow()
  if (size <= best) best = size
  else for (const [offset, letter] of undo) short.set(offset, letter)
}
console.log(`${best} bytes`)
const found = {
  variables: Object.fromEntries(groups.map(([name, group]) => [name, group.map(letterOf).join('')])),
  fields: Object.fromEntries([...fields].map(([name, [first]]) => [name, short.get(first!)!])),
}
writeFileSync(new URL('lua-names.json', import.meta.url), `${JSON.stringify(found, null, 2)}\n`)
