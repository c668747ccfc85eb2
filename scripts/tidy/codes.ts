/** The error codes stand in three places: the table in the code, a row in the reference, and a test. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Check } from './check.ts'
import type { Tree } from './tree.ts'

const tableFile = 'packages/gateway/src/errors.ts'
const pageFile = 'docs/reference/errors.md'

export const codesAreDocumented: Check = {
  name: 'every error code has a row in the reference, and every row a code',
  async faults(tree) {
    const codes = await errorCodes(tree)
    const page = tree.text(pageFile)
    if (!page)
      return [{ where: pageFile, what: 'does not exist', wayOut: 'write one row for each error code' }]
    const rows = new Set([...page.matchAll(/^\|\s*`([A-Z][A-Z0-9_]+)`\s*\|/gm)].map((match) => match[1]!))
    const undocumented = [...codes]
      .filter((code) => !rows.has(code))
      .map((code) => ({
        where: pageFile,
        what: `has no row for ${code}`,
        wayOut: 'say what it means and how to fix it',
      }))
    const unknown = [...rows]
      .filter((code) => !codes.has(code))
      .map((code) => ({
        where: pageFile,
        what: `has a row for ${code}, which ${tableFile} does not know`,
        wayOut: 'take it out, or add the code',
      }))
    return [...undocumented, ...unknown]
  },
}

export const codesAreTested: Check = {
  name: 'every error code occurs in a test',
  async faults(tree) {
    const tests = tree.files.filter((file) => /^packages\/[^/]+\/test\/.*\.ts$/.test(file))
    const words = new Set(tests.flatMap((file) => tree.text(file).match(/\b[A-Z][A-Z0-9_]+\b/g) ?? []))
    return [...(await errorCodes(tree))]
      .filter((code) => !words.has(code))
      .map((code) => ({
        where: tableFile,
        what: `no test provokes ${code}`,
        wayOut: 'write one, or take the code out',
      }))
  },
}

async function errorCodes(tree: Tree): Promise<Set<string>> {
  if (!tree.has(tableFile)) return new Set()
  const table: { errors: object } = await import(pathToFileURL(join(tree.root, tableFile)).href)
  return new Set(Object.keys(table.errors))
}
