/**
 * Makes Lua small: comments and needless spaces go, and what is local gets short names. Lines stay lines, so that an
 * error of the server still leads to one. One name becomes the same short name wherever it stands, whatever its scope,
 * and no short name is one that stands for something else: so nothing has to be known of scopes for the meaning to
 * stay. So do fields of our own tables; those of globals (`redis.call`) and of what Redis answers, globals and texts stay
 * as they are. What it does not know it refuses.
 */

interface Token {
  readonly kind: 'name' | 'number' | 'text' | 'sign'
  readonly text: string
}

const keywords = new Set(
  'and break do else elseif end false for function if in local nil not or repeat return then true until while'.split(
    ' ',
  ),
)
const tokenPattern =
  /\s+|(?<name>[A-Za-z_]\w*)|(?<number>\d+(?:\.\d+)?(?:e\d+)?)|(?<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(?<sign>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}[\];:,.])/y

/** @throws {Error} for what is no Lua of the kind that is written here */
export function shortenLua(script: string): string {
  const lines = script.split('\n').map(tokensOf)
  const names = shortNames(lines.flat())
  const written = lines.map((line) => write(line, names))
  return written.filter((line) => line !== '').join('\n')
}

/** Fields of what Redis answers: an error. */
const foreignFields: ReadonlySet<string> = new Set(['err'])

type Named = Token & { isLocal?: boolean }

function tokensOf(line: string): Named[] {
  const tokens: Named[] = []
  for (let at = 0; at < line.length; at = tokenPattern.lastIndex) {
    if (line.startsWith('--[', at)) throw new Error(`long comments are not known here: ${line}`)
    if (line.startsWith('--', at)) break
    tokenPattern.lastIndex = at
    const found = tokenPattern.exec(line)
    if (found === null || line.startsWith('[[', at))
      throw new Error(`this is not known here: ${line.slice(at)}`)
    const { name, number, text, sign } = found.groups!
    if (name !== undefined) tokens.push({ kind: 'name', text: name })
    else if (number !== undefined) tokens.push({ kind: 'number', text: number })
    else if (text !== undefined) tokens.push({ kind: 'text', text })
    else if (sign !== undefined) tokens.push({ kind: 'sign', text: sign })
  }
  return tokens
}

/** Marks what may be renamed, and gives the names that stand most often the shortest ones. */
function shortNames(tokens: readonly Named[]): ReadonlyMap<string, string> {
  const declared = declaredIn(tokens)
  const taken = new Set(keywords)
  const counts = new Map<string, number>()
  const open: string[] = []
  for (const [index, token] of tokens.entries()) {
    const { kind, text } = token
    if ('({['.includes(text)) open.push(text)
    else if (')}]'.includes(text)) open.pop()
    else if (text === 'function' && open.includes('{'))
      throw new Error('a function within a table is not known here')
    if (kind !== 'name' || keywords.has(text)) continue
    const before = tokens[index - 1]?.text
    const isKey = open.at(-1) === '{' && tokens[index + 1]?.text === '=' && (before === '{' || before === ',')
    const isField = before === '.' || isKey
    const owner = tokens[index - 2]
    const isOurs =
      isKey || owner?.kind !== 'name' || declared.has(owner.text) || tokens[index - 3]?.text === '.'
    if (before === ':') throw new Error(`a method is not known here: ${text}`)
    token.isLocal = isField ? isOurs && !foreignFields.has(text) : declared.has(text)
    if (token.isLocal) counts.set(text, (counts.get(text) ?? 0) + 1)
    else taken.add(text)
  }
  const short = shortest(taken)
  return new Map(
    [...counts].sort(([, a], [, b]) => b - a).map(([name]) => [name, short.next().value as string]),
  )
}

/** Names behind `local` and `for`, and parameters. */
function declaredIn(tokens: readonly Token[]): ReadonlySet<string> {
  const declared = new Set<string>()
  for (let index = 0; index < tokens.length; index += 1) {
    const { text } = tokens[index]!
    let at = index + 1
    if (text === 'function') while (tokens[at - 1]!.text !== '(') at += 1
    else if (text === 'local' && tokens[at]!.text === 'function') at += 1
    else if (text !== 'local' && text !== 'for') continue
    for (; tokens[at]?.kind === 'name'; at += 2) {
      declared.add(tokens[at]!.text)
      if (tokens[at + 1]?.text !== ',') break
    }
  }
  return declared
}

function* shortest(taken: ReadonlySet<string>): Generator<string> {
  const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
  for (const first of ['', ...letters]) {
    for (const last of letters) if (!taken.has(first + last)) yield first + last
  }
  throw new Error('a script of so many names is not known here')
}

/** A space stands only where two tokens would run into each other. */
function write(line: readonly Named[], names: ReadonlyMap<string, string>): string {
  let written = ''
  for (const { text, isLocal } of line) {
    const next = isLocal ? names.get(text)! : text
    const last = written.at(-1) ?? ''
    // Two words, a number and `..`, and two signs that would begin a comment.
    const runs =
      (/\w/.test(last) && /\w/.test(next[0]!)) ||
      (/\d/.test(last) && next[0] === '.') ||
      (last === '-' && next[0] === '-')
    written += runs ? ` ${next}` : next
  }
  return written
}
