/**
 * A package as npm gets it: what `files` names, a manifest without what only the checkout needs (scripts, development
 * dependencies, the condition that leads to `src/`), and documents whose links lead into the repository, because npm
 * shows them where no file of ours stands beside them.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'

interface Manifest {
  readonly name: string
  readonly files?: readonly string[]
  readonly exports?: unknown
  readonly [field: string]: unknown
}

/** Parts that only the checkout needs. */
const checkoutOnly = new Set(['private', 'scripts', 'devDependencies'])

/** Lays the package out under `node_modules/.cache/publish` and answers the folder, from which `npm publish` runs. */
export function stage(root: string, name: string): string {
  const folder = join(root, 'packages', name)
  const staged = join(root, 'node_modules/.cache/publish', name)
  const { repository } = readManifest(join(root, 'package.json')) as unknown as {
    readonly repository: Repository
  }
  const manifest = readManifest(join(folder, 'package.json'))
  rmSync(staged, { recursive: true, force: true })
  mkdirSync(staged, { recursive: true })
  for (const path of manifest.files ?? []) {
    if (path.endsWith('.md')) continue
    const source = [join(folder, path), join(root, path)].find((each) => existsSync(each))
    if (source !== undefined) cpSync(source, join(staged, path), { recursive: true })
  }
  for (const path of (manifest.files ?? []).filter((each) => each.endsWith('.md'))) {
    if (!existsSync(join(folder, path))) continue
    const text = readFileSync(join(folder, path), 'utf8')
    writeFileSync(join(staged, path), withAbsoluteLinks(text, `packages/${name}`, webOf(repository)))
  }
  const published = publishedManifest(manifest, repository, `packages/${name}`)
  writeFileSync(join(staged, 'package.json'), `${JSON.stringify(published, null, 2)}\n`)
  return staged
}

interface Repository {
  readonly type: string
  readonly url: string
}

function publishedManifest(manifest: Manifest, repository: Repository, directory: string): Manifest {
  const kept = Object.entries(manifest).filter(([field]) => !checkoutOnly.has(field))
  const web = webOf(repository)
  return {
    ...(Object.fromEntries(kept) as Manifest),
    ...(manifest.exports === undefined ? {} : { exports: withoutSource(manifest.exports) }),
    repository: { ...repository, directory },
    homepage: `${web}/tree/main/${directory}#readme`,
    bugs: `${web}/issues`,
  }
}

/** Without the condition under which the checkout runs its sources: they are not published. */
function withoutSource(exports: unknown): unknown {
  if (typeof exports !== 'object' || exports === null) return exports
  const kept = Object.entries(exports).filter(([condition]) => condition !== 'sluice-source')
  return Object.fromEntries(kept.map(([condition, target]) => [condition, withoutSource(target)]))
}

/** Relative links of a document in `directory` as addresses in the repository; links within the page stay. */
export function withAbsoluteLinks(text: string, directory: string, web: string): string {
  return text.replace(/\]\((?!#|[a-z]+:)([^)\s]+)\)/g, (_, target: string) => {
    return `](${web}/blob/main/${posix.join(directory, target)})`
  })
}

const webOf = ({ url }: Repository): string => url.replace(/^git\+/, '').replace(/\.git$/, '')

function readManifest(file: string): Manifest {
  return JSON.parse(readFileSync(file, 'utf8')) as Manifest
}
