/**
 * The API reference of the library, out of its docstrings: `node scripts/build/reference.ts` writes
 * docs/reference/limits-api.md anew. A test holds the page against the code.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { entriesOf } from './bundle.ts'
import { type Declaration, readDeclarations } from './declarations.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = join(root, 'packages/limits')
const referencePage = join(root, 'docs/reference/limits-api.md')

/** @throws {Error} with the compiler's words */
function reference(): string {
  const declared = mkdtempSync(join(tmpdir(), 'sluice-reference-'))
  try {
    const project = join(root, 'scripts/build/limits.tsconfig.json')
    const args = ['-p', project, '--emitDeclarationOnly', '--outDir', declared]
    const { status, stdout } = spawnSync(join(root, 'node_modules/.bin/tsc'), args, { encoding: 'utf8' })
    if (status !== 0) throw new Error(`tsc could not emit the declarations:\n${stdout}`)
    return page(declared)
  } finally {
    rmSync(declared, { recursive: true, force: true })
  }
}

function page(declared: string): string {
  const declarations = readDeclarations(declared)
  const told = new Set<string>()
  const sections = entriesOf(folder).map((entry) => {
    const all = [...new Set(declarations.exportsOf(`${entry}.d.ts`))]
    const fresh = all.filter(({ name }) => !told.has(name))
    const before = all.filter(({ name }) => told.has(name))
    for (const { name } of fresh) told.add(name)
    const functions = fresh.filter(isValue)
    const types = fresh.filter((each) => !isValue(each))
    const also = before.length === 0 ? [] : [`The same as above: ${before.map(link).join(', ')}.`]
    return [`## ${specifierOf(entry)}`, ...also, ...[...functions, ...types].map(section)].join('\n\n')
  })
  return `# API of @sluice/limits

Made of the docstrings by \`node scripts/build/reference.ts\`; change those, not this. How the parts go together is told
in the [README of the package](../../packages/limits/README.md). Instants are epoch milliseconds.

${sections.join('\n\n')}
`
}

const isValue = ({ kind }: Declaration): boolean => kind !== 'interface' && kind !== 'type'
const link = ({ name }: Declaration): string => `[${name}](#${name.toLowerCase()})`
const specifierOf = (entry: string): string =>
  `@sluice/limits/${entry}`.replace(/\/index$/, '').replace('/middleware/', '/')

function section({ name, comment, text }: Declaration): string {
  const code = text.replace(/;$/gm, '').replace(/^ {4,}/gm, (indent) => ' '.repeat(indent.length / 2))
  return [`### ${name}`, ...prose(comment), `\`\`\`ts\n${code}\n\`\`\``].join('\n\n')
}

/** The text of a docstring, then what its tags say. */
function prose(comment: string): readonly string[] {
  const plain = comment
    .replace(/^\/\*\*|\*\/$/g, '')
    .split('\n')
    .map((line) => line.trim().replace(/^\* ?/, ''))
    .join('\n')
    .trim()
  const [text = '', ...tags] = plain.split(/(?:^|\s)@(?=param|throws|returns|defaultValue)/)
  const lists = tags.map((tag) => {
    const [, kind, what = ''] = /^(\w+)\s*([\s\S]*)$/.exec(tag.trim())!
    const told = what.replace(/\s*\n\s*/g, ' ').trim()
    if (kind === 'param') return `- ${told.replace(/^(\S+)\s*-?\s*/, '`$1`: ')}`
    return `- ${kind === 'throws' ? 'throws' : kind === 'defaultValue' ? 'by default' : 'answers'} ${told}`
  })
  return [text.trim(), lists.join('\n')].filter((part) => part !== '')
}

/** Where the page is not what the code says: undefined when it is. */
export function outOfDate(): string | undefined {
  const [is, shouldBe] = [readFileSync(referencePage, 'utf8').split('\n'), reference().split('\n')]
  const line = shouldBe.findIndex((text, index) => text !== is[index])
  if (line < 0 && is.length === shouldBe.length) return undefined
  return `line ${line + 1} should read: ${shouldBe[line] ?? '(nothing more)'}`
}

if (import.meta.main) writeFileSync(referencePage, reference())
