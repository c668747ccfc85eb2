/** The lockfile serves every machine: no registry of ours in it, and the packages of all platforms. */
import type { Check, Fault } from './check.ts'

const lockFile = 'package-lock.json'

export const lockNamesNoHost: Check = {
  name: 'the lockfile names no registry',
  faults: (tree) =>
    tree
      .text(lockFile)
      .split('\n')
      .flatMap((line, index): Fault[] => {
        const host = /"resolved":\s*"https?:\/\/([^/"]+)/.exec(line)?.[1]
        if (!host) return []
        const wayOut = "make it again with the project's .npmrc (omit-lockfile-registry-resolved)"
        return [{ where: `${lockFile}:${index + 1}`, what: `names ${host}`, wayOut }]
      }),
}

interface Locked {
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly engines?: Readonly<Record<string, string>>
  readonly optional?: boolean
}

const oldestNode = 20

/**
 * Packages that only the gateway runs, on the Node 24 that it brings, and that are made for no older one: `npm ci` warns of
 * them there, and everything works. The library's users never install them.
 */
const onNode24 = ['@platformatic/dynamic-buffer', '@platformatic/kafka', '@platformatic/wasm-utils']

export const lockRunsOnOldestNode: Check = {
  name: `npm ci warns of no package on Node ${oldestNode}, but for those of the gateway's own Node`,
  faults(tree) {
    const { packages = {} } = JSON.parse(tree.text(lockFile) || '{}') as {
      packages?: Readonly<Record<string, Locked>>
    }
    return Object.entries(packages).flatMap(([path, { engines, optional }]) => {
      const range = engines?.node ?? '*'
      // One that is optional is left out in silence.
      if (onNode24.some((name) => path === `node_modules/${name}`)) return []
      if (optional === true || range.split('||').some((part) => takes(part.trim(), oldestNode))) return []
      const wayOut = 'take an older version by "overrides" in package.json, or another package'
      return [{ where: lockFile, what: `has ${path}, which wants Node ${range}`, wayOut }]
    })
  },
}

/** True if one part of a range takes some version of this major: `>=18`, `^20.1`, `20.x`, `20 - 22`, `*`. */
function takes(part: string, major: number): boolean {
  const [, sign = '', written = ''] = /^([<>=^~]*)\s*v?(\d+|\*|x)/.exec(part) ?? []
  if (part === '' || !/\d/.test(written)) return true
  if (sign.startsWith('>')) return Number(written) <= major
  return sign.startsWith('<') || Number(written) === major
}

export const lockIsWhole: Check = {
  name: 'the lockfile holds the optional packages of every platform, so that npm ci works',
  faults(tree) {
    const text = tree.text(lockFile)
    if (!text) return [{ where: lockFile, what: 'does not exist', wayOut: 'npm install makes it' }]
    const { packages = {} } = JSON.parse(text) as { packages?: Readonly<Record<string, Locked>> }
    return Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies)
        .filter(
          (name) => !(`node_modules/${name}` in packages) && !(`${path}/node_modules/${name}` in packages),
        )
        .map((name) => ({
          where: lockFile,
          what: `lacks ${name}, which ${path || 'the project'} names: npm ci fails`,
          wayOut: 'take a version whose packages are all published, and make the lockfile afresh',
        })),
    )
  },
}
