/**
 * A factory is given its dependencies one by one. Options that are handed on whole hide what a part needs, and reach
 * parts that need none of them.
 */
import type { Check, Fault } from './check.ts'
import { withoutComments } from './imports.ts'
import type { Tree } from './tree.ts'

/**
 * The stages and the composition that joins them. Options of engines, providers and commands are settings, not
 * dependencies, and may be passed on as they came.
 */
const parts =
  /^packages\/gateway\/src\/(?:gateway\.ts|(?:admission|composition|delivery|http|ledger|observability|queue|scheduler)\/)/

/** The call of a factory, up to its parenthesis. A declaration of one is no call. */
const factoryCall = /(?<!function\s)\b(?:create[A-Z]\w*|\w+Routes)(?:<[^<>()]*>)?\(/g

/** Options as they came: the only argument, the first of several, or spread into another object. */
const whole = /^\s*options\s*(?:,|$)|\.\.\.options\b(?!\.)/

export const dependenciesAreNamed: Check = {
  name: 'every factory of a stage is given its dependencies one by one',
  faults: (tree) => tree.files.filter((file) => parts.test(file)).flatMap((file) => handedOn(tree, file)),
}

function handedOn(tree: Tree, file: string): Fault[] {
  const code = withoutComments(tree.text(file))
  return [...code.matchAll(factoryCall)].flatMap((call) => {
    const from = call.index + call[0].length
    if (!whole.test(code.slice(from, endOfArguments(code, from)))) return []
    return [
      {
        where: `${file}:${code.slice(0, call.index).split('\n').length}`,
        what: `hands its options on whole to ${call[0].slice(0, -1)}`,
        wayOut: 'name the dependencies that it needs',
      },
    ]
  })
}

/** Returns the index of the parenthesis that ends the arguments that begin at `from`. */
function endOfArguments(code: string, from: number): number {
  let depth = 1
  for (let index = from; index < code.length; index += 1) {
    if ('([{'.includes(code[index]!)) depth += 1
    else if (')]}'.includes(code[index]!)) depth -= 1
    if (depth === 0) return index
  }
  return code.length
}
