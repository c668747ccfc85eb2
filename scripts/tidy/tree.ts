/**
 * The files of the project as the checks see them: what git knows or would add, by path from the root, with
 * forward slashes. Without git (an unpacked archive) the folders are walked instead.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Tree {
  readonly root: string
  readonly files: readonly string[]
  has(file: string): boolean
  /** The text of a file; empty when there is none. */
  text(file: string): string
}

export function readTree(root: string): Tree {
  const files = (listByGit(root) ?? walk(root)).sort()
  const known = new Set(files)
  const texts = new Map<string, string>()
  return {
    root,
    files,
    has: (file) => known.has(file),
    text(file) {
      let text = texts.get(file)
      if (text === undefined) {
        text = known.has(file) ? readFileSync(join(root, file), 'utf8') : ''
        texts.set(file, text)
      }
      return text
    },
  }
}

function listByGit(root: string): string[] | undefined {
  if (!existsSync(join(root, '.git'))) return undefined
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
  if (status !== 0) return undefined
  // A file that is deleted but not yet committed is still listed; one with conflicts is listed thrice.
  return [...new Set(stdout.split('\0'))].filter((file) => file !== '' && existsSync(join(root, file)))
}

const unwalked = new Set(['.git', 'node_modules', 'dist', 'data', '.services'])

function walk(root: string, folder = ''): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (entry.isDirectory()) return unwalked.has(entry.name) ? [] : walk(root, path)
    return entry.isFile() && !path.endsWith('.tgz') ? [path] : []
  })
}
