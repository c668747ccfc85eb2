/**
 * The declarations of a package as a list of statements: what is declared, under which comment, in which file, and
 * which other statements it names. Read from the `.d.ts` files that the compiler emits, whose layout is regular: each
 * top-level statement begins at the left edge. From it the published types are rolled up, and the API reference written.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

export interface Declaration {
  readonly name: string
  /** Path within the folder: `stores/redis.d.ts`. */
  readonly file: string
  readonly kind: 'function' | 'interface' | 'type' | 'const' | 'class'
  readonly exported: boolean
  /** The comment before it, as it stands; '' where there is none. */
  readonly comment: string
  /** Without `export` and `declare`. Overloads of a function are one declaration. */
  readonly text: string
}

interface Module {
  readonly declared: Map<string, Declaration>
  /** Local name → where it comes from. */
  readonly imported: Map<string, string>
  readonly reexported: Map<string, string>
  readonly all: string[]
  /** Local name → the import of another package, as it stands. */
  readonly foreign: Map<string, string>
}

export interface Declarations {
  /** @throws {Error} where a file exports what is nowhere declared */
  exportsOf(file: string): readonly Declaration[]
  /** These, and all that they name, in the order in which they are found. */
  closure(from: readonly Declaration[]): readonly Declaration[]
  /** The imports of other packages that these need, as they stand. */
  foreignOf(declarations: readonly Declaration[]): readonly string[]
}

export function readDeclarations(folder: string): Declarations {
  const modules = new Map<string, Module>()
  for (const entry of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!entry.endsWith('.d.ts')) continue
    const file = entry.replaceAll('\\', '/')
    modules.set(file, readModule(file, readFileSync(join(folder, entry), 'utf8')))
  }
  const moduleOf = (file: string): Module => {
    const found = modules.get(file)
    if (found === undefined) throw new Error(`no declarations in ${file}`)
    return found
  }
  const find = (file: string, name: string): Declaration | undefined => {
    const { declared, imported, reexported, all } = moduleOf(file)
    const own = declared.get(name)
    if (own !== undefined) return own
    const from = imported.get(name) ?? reexported.get(name)
    if (from !== undefined) return find(from, name)
    return all.map((each) => find(each, name)).find((found) => found !== undefined)
  }
  const exportsOf = (file: string): readonly Declaration[] => {
    const { declared, reexported, all } = moduleOf(file)
    const names = [...reexported.keys()].map((name) => {
      const found = find(file, name)
      if (found === undefined) throw new Error(`${file} exports ${name}, which is nowhere declared`)
      return found
    })
    const own = [...declared.values()].filter(({ exported }) => exported)
    return [...names, ...all.flatMap(exportsOf), ...own]
  }
  return {
    exportsOf,
    closure(from) {
      const found = new Set<Declaration>()
      const visit = (declaration: Declaration): void => {
        if (found.has(declaration)) return
        found.add(declaration)
        for (const word of wordsOf(declaration.text)) {
          const named = find(declaration.file, word)
          if (named !== undefined) visit(named)
        }
      }
      for (const declaration of from) visit(declaration)
      return [...found]
    },
    foreignOf: (declarations) => [
      ...new Set(
        declarations.flatMap(({ file, text }) =>
          [...moduleOf(file).foreign]
            .filter(([name]) => wordsOf(text).has(name))
            .map(([, statement]) => statement),
        ),
      ),
    ],
  }
}

const comment = /\/\*[\s\S]*?\*\//g
const withoutComments = (text: string): string => text.replace(comment, '')
const wordsOf = (text: string): Set<string> => new Set(withoutComments(text).match(/[A-Za-z_$][\w$]*/g))

function readModule(file: string, text: string): Module {
  const module: Module = {
    declared: new Map(),
    imported: new Map(),
    reexported: new Map(),
    all: [],
    foreign: new Map(),
  }
  for (const { comment, code } of statements(text)) readStatement(module, file, comment, code)
  return module
}

function readStatement(module: Module, file: string, comment: string, code: string): void {
  const lists = /^(import|export)\s+(?:type\s+)?\{([^}]*)\}(?:\s+from\s+['"]([^'"]+)['"])?;?$/.exec(code)
  if (lists !== null) {
    const [, kind, names, from] = lists
    if (from !== undefined && !from.startsWith('.')) {
      for (const name of names!.split(',')) module.foreign.set(name.trim().replace(/^type\s+/, ''), code)
      return
    }
    if (from === undefined) {
      // `export {}` says only that the file is a module.
      if (names!.trim() !== '') throw new Error(`${file}: {${names}} is exported apart from its declaration`)
      return
    }
    const target = resolve(file, from)
    for (const name of names!.split(',').map((part) => part.trim().replace(/^type\s+/, ''))) {
      if (name === '') continue
      if (/\sas\s/.test(name))
        throw new Error(`${file}: ${name} is renamed, which the roll-up does not follow`)
      const map = kind === 'import' ? module.imported : module.reexported
      map.set(name, target)
    }
    return
  }
  const star = /^export \* from ['"]([^'"]+)['"];$/.exec(code)
  if (star !== null) {
    module.all.push(resolve(file, star[1]!))
    return
  }
  const declared =
    /^(?:export )?(?:declare )?((?:abstract )?class|function|interface|type|const) ([\w$]+)/.exec(code)
  if (declared === null) throw new Error(`${file}: this statement is not understood: ${code.slice(0, 80)}`)
  const [, kind, name] = declared
  const bare = code.replace(/^export /, '').replace(/^declare /, '')
  const before = module.declared.get(name!)
  const text = before === undefined ? bare : `${before.text}\n${comment === '' ? '' : `${comment}\n`}${bare}`
  module.declared.set(name!, {
    name: name!,
    file,
    kind: kind as Declaration['kind'],
    exported: code.startsWith('export '),
    comment: before?.comment ?? comment,
    text,
  })
}

const resolve = (file: string, specifier: string): string =>
  posix.join(posix.dirname(file), specifier).replace(/\.(ts|js)$/, '.d.ts')

/** A statement ends with the line that closes its last brace; a comment right before it is its own. */
function statements(text: string): { comment: string; code: string }[] {
  const found: { comment: string; code: string }[] = []
  let [comments, code, depth, inComment] = ['', '', 0, false]
  for (const line of text.split('\n')) {
    if (code === '' && (inComment || line.startsWith('/*'))) {
      // A second comment means that the first belonged to the file.
      comments = inComment ? `${comments}\n${line}` : line
      inComment = !line.includes('*/')
      continue
    }
    if (code === '' && line.trim() === '') continue
    code += code === '' ? line : `\n${line}`
    const bare = withoutComments(code)
      .replace(/\/\*[\s\S]*$/, '')
      .replace(/'[^'\n]*'|"[^"\n]*"|`[^`]*`/g, '')
    depth = (bare.match(/[{([]/g)?.length ?? 0) - (bare.match(/[})\]]/g)?.length ?? 0)
    const isOpen = /\/\*(?![\s\S]*\*\/)/.test(code.replace(comment, ''))
    if (depth === 0 && !isOpen && /[;}]$/.test(line)) {
      found.push({ comment: comments, code })
      ;[comments, code] = ['', '']
    }
  }
  if (code !== '') throw new Error(`a statement does not end: ${code.slice(0, 80)}`)
  return found
}
