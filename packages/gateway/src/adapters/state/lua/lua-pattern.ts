/** The patterns of Lua as regular expressions: classes, sets, captures, anchors and repetitions, as our scripts use them. */

export interface Match {
  /** The offset of its first character. */
  readonly at: number
  readonly all: string
  readonly captures: string[]
}

const classes: Readonly<Record<string, string>> = {
  d: '0-9',
  a: 'A-Za-z',
  w: '0-9A-Za-z',
  s: '\\s',
  x: '0-9A-Fa-f',
}
const escaped = (character: string): string => character.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

const made = new Map<string, RegExp>()

function expressionOf(pattern: string): RegExp {
  const before = made.get(pattern)
  if (before !== undefined) return before
  let source = ''
  let isInSet = false
  for (let index = 0; index < pattern.length; index += 1) {
    const character = pattern[index]!
    if (character === '%') {
      index += 1
      const name = pattern[index]!
      const members = classes[name]
      if (members === undefined && /[A-Za-z0-9]/.test(name))
        throw new Error(`the pattern ${pattern} is not known`)
      source += members === undefined ? escaped(name) : isInSet ? members : `[${members}]`
    } else if (isInSet) {
      if (character === ']') isInSet = false
      source += character === ']' || character === '^' || character === '-' ? character : escaped(character)
    } else if (character === '[') {
      isInSet = true
      source += '['
    } else if (character === '.') source += '[^]'
    else if (character === '-') source += '*?'
    else if ('()*+?'.includes(character)) source += character
    else if (character === '^' && index === 0) source += '^'
    else if (character === '$' && index === pattern.length - 1) source += '$'
    else source += escaped(character)
  }
  const expression = new RegExp(source, 'g')
  made.set(pattern, expression)
  return expression
}

/** Finds a pattern in a text, from an offset on, so many times at most. */
export function matches(
  text: string,
  pattern: string,
  from: number,
  most = Number.POSITIVE_INFINITY,
): Match[] {
  const expression = expressionOf(pattern)
  if (from > 0 && pattern.startsWith('^'))
    throw new Error('an anchor behind the first character is not known')
  const found: Match[] = []
  expression.lastIndex = from
  while (found.length < most) {
    const match = expression.exec(text)
    if (match === null) break
    found.push({ at: match.index, all: match[0], captures: match.slice(1) })
    if (match[0] === '') expression.lastIndex += 1
  }
  return found
}
