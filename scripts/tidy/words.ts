/** Texts that should not be written down: promises to do it later, one person's folders, links to nowhere. */
import { posix } from 'node:path'
import type { Check, Fault } from './check.ts'
import type { Tree } from './tree.ts'

const written = /\.(ts|tsx|js|json|md|ya?ml|lua|sql|sh|html|css|liquid)$|^\.ci\//

/** Every line of the project's own texts that fits the pattern. */
function lines(tree: Tree, pattern: RegExp): { where: string; found: string }[] {
  return tree.files
    .filter((file) => written.test(file) && file !== 'package-lock.json' && file !== 'scripts/tidy/words.ts')
    .flatMap((file) =>
      tree
        .text(file)
        .split('\n')
        .flatMap((line, index) => {
          const found = pattern.exec(line)
          return found ? [{ where: `${file}:${index + 1}`, found: found[0].trim() }] : []
        }),
    )
}

export const nothingIsPutOff: Check = {
  name: 'no text puts its work off',
  faults: (tree) =>
    lines(tree, /\b(TODO|FIXME|XXX)\b|^(?:<{7}|>{7}) /).map(({ where, found }) => ({
      where,
      what: `says ${found}`,
      wayOut: 'do it, or open an issue; resolve a conflict of a merge',
    })),
}

export const noMachinePaths: Check = {
  name: "no text names one machine's folders",
  faults: (tree) =>
    lines(tree, /(?:^|[\s'"`(=:])\/(?:work|root|home|Users|tmp\/bash[\w.]*)\/[\w.-]*/).map(
      ({ where, found }) => ({
        where,
        what: `names ${found}`,
        wayOut: 'use a path from the project, or the system temporary folder',
      }),
    ),
}

const link =
  /(?<!!)\[[^\]\n]*\]\(([^)\s]+)(?:\s+"[^"]*")?\)|!\[[^\]\n]*\]\(([^)\s]+)\)|<img[^>]+src="([^"]+)"/g

export const linksLead: Check = {
  name: 'every relative link in the documents leads somewhere',
  faults: (tree) =>
    tree.files.filter((file) => file.endsWith('.md')).flatMap((file) => deadLinks(tree, file)),
}

const docsIndex = 'docs/README.md'

export const pagesAreListed: Check = {
  name: 'docs/README.md lists every page, and no two decisions have one number',
  faults(tree) {
    const pages = tree.files.filter((file) => /^docs\/.+\.md$/.test(file) && file !== docsIndex)
    const unlisted = pages
      .filter((file) => !tree.text(docsIndex).includes(`](${file.slice('docs/'.length)})`))
      .map((where) => ({ where, what: `is not listed in ${docsIndex}`, wayOut: 'add a line for it there' }))
    return [...unlisted, ...sharedNumbers(pages, /^docs\/decisions\/(\d+)-/)]
  },
}

/** Two steps that were made side by side may define the same function: the younger one takes up what the other does. */
export const stepsAreInOrder: Check = {
  name: 'no two steps of the schema of PostgreSQL have one number',
  faults: (tree) => sharedNumbers(tree.files, /\/postgres\/migrations\/(\d+)-[^/]+\.sql$/),
}

/** Files beyond the first one of each number. */
function sharedNumbers(files: readonly string[], pattern: RegExp): Fault[] {
  const numbered = Map.groupBy(files, (file) => pattern.exec(file)?.[1])
  return [...numbered]
    .filter(([number, those]) => number !== undefined && those.length > 1)
    .map(([number, those]) => ({
      where: those[1]!,
      what: `has the number ${number}, as ${those[0]} has`,
      wayOut: 'give the younger one the next free number',
    }))
}

function deadLinks(tree: Tree, file: string): Fault[] {
  const prose = tree
    .text(file)
    .replace(/^(```|~~~)[\s\S]*?^\1/gm, '')
    .replace(/`[^`\n]*`/g, '')
  return [...prose.matchAll(link)].flatMap((match) => {
    const target = match[1] ?? match[2] ?? match[3]!
    if (/^([a-z][a-z+.-]*:|\/\/)/i.test(target)) return []
    const [path = '', anchor] = target.split('#')
    const other =
      path === '' ? file : posix.normalize(posix.join(posix.dirname(file), decodeURIComponent(path)))
    const folder = other.endsWith('/') ? other : `${other}/`
    const there = tree.has(other) || other === './' || tree.files.some((known) => known.startsWith(folder))
    const fault = { where: file, wayOut: 'correct the link, or bring back what it meant' }
    if (!there) return [{ ...fault, what: `links to ${target}, which is not there` }]
    if (!anchor || !other.endsWith('.md') || anchors(tree.text(other)).has(anchor)) return []
    return [{ ...fault, what: `links to ${target}, but there is no such heading` }]
  })
}

/** Headings as GitHub names them: lower case, punctuation dropped, blanks to dashes, repetitions numbered. */
function anchors(text: string): Set<string> {
  const names = new Set<string>()
  const prose = text.replace(/^(```|~~~)[\s\S]*?^\1/gm, '')
  for (const [, heading] of prose.matchAll(/^#{1,6}\s+(.+?)\s*#*$/gm)) {
    const plain = heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const name = plain.replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-')
    let unique = name
    for (let count = 1; names.has(unique); count++) unique = `${name}-${count}`
    names.add(unique)
  }
  for (const [, id] of prose.matchAll(/<a (?:id|name)="([^"]+)"/g)) names.add(id!)
  return names
}
