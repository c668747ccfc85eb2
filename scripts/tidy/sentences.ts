/**
 * Comments are sentences that name the thing: one that begins with "What", "Whether", "Of" or "Those" is a fragment or a
 * riddle, and a search for the thing's name does not find it.
 */
import type { Check, Fault } from './check.ts'
import type { Tree } from './tree.ts'

/** A doc comment with its text, or one line of a `//` comment. */
const comment = /\/\*\*\s*(?:\*\s*)?([\s\S]*?)\*\/|^[^\S\n]*\/\/[^\S\n]*(.*)$/gm

const riddle = /^(?:What|Whether|Of|Those)\b/

export const commentsAreSentences: Check = {
  name: 'no comment begins with What, Whether, Of or Those',
  faults: (tree) =>
    tree.files.filter((file) => file.endsWith('.ts')).flatMap((file) => riddlesOf(tree, file)),
}

function riddlesOf(tree: Tree, file: string): Fault[] {
  const text = tree.text(file)
  return [...text.matchAll(comment)].flatMap((match) => {
    const found = riddle.exec((match[1] ?? match[2] ?? '').trim())
    if (found === null || continuesComment(text, match)) return []
    const line = text.slice(0, match.index).split('\n').length
    return [
      {
        where: `${file}:${line}`,
        what: `has a comment that begins with "${found[0]}"`,
        wayOut: 'write a sentence whose subject is the name of the thing',
      },
    ]
  })
}

/** True for a `//` line below another one: its first word may stand anywhere in a sentence. */
function continuesComment(text: string, match: RegExpExecArray): boolean {
  if (match[2] === undefined) return false
  const above = text.slice(0, match.index).trimEnd().split('\n').at(-1) ?? ''
  return above.trimStart().startsWith('//')
}
