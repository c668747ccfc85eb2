/** Tables in documents, and the marks between which a benchmark writes them. */
import { readFileSync, writeFileSync } from 'node:fs'

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const rule = head.map((_, column) => (column === 0 ? '---' : '---:'))
  return [head, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

/** Writes the text between `<!-- bench: name -->` and `<!-- /bench: name -->` in a document. */
export function writeBetween(file: string, name: string, text: string): void {
  const [begin, end] = [`<!-- bench: ${name} -->`, `<!-- /bench: ${name} -->`]
  const page = readFileSync(file, 'utf8')
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${file} has no marks ${begin} … ${end}`)
  writeFileSync(file, `${page.slice(0, from + begin.length)}\n${text}\n${page.slice(to)}`)
}
