/** Fetches Java engines from Maven's central repository; what was fetched is kept in `.services/`. */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { EngineMissing, endOf, ensureInstalled, findCommand, runProgram } from './install.ts'

export interface JavaEngine {
  readonly name: string
  /** `group:artifact:version` of the engine and of what it needs besides. */
  readonly artifacts: readonly string[]
  /** The environment variable that names a running one. */
  readonly env: string
}

const folderOf = (name: string): string => fileURLToPath(new URL(`../../.services/${name}`, import.meta.url))

/** Returns the folder with the jars of an engine. @throws {EngineMissing} */
export async function fetchJars({ name, artifacts, env }: JavaEngine): Promise<string> {
  await ensureInstalled({ engine: name, commands: ['java'], packages: ['default-jre-headless'] })
  const folder = `${folderOf(name)}-${artifacts[0]!.split(':')[2]}`
  if (existsSync(folder)) return folder
  await ensureInstalled({ engine: name, commands: ['mvn'], packages: ['maven'] })
  console.error(`fetching ${artifacts[0]} for ${name} …`)
  const work = `${folder}.${process.pid}`
  mkdirSync(work, { recursive: true })
  try {
    writeFileSync(join(work, 'pom.xml'), pomOf(name, artifacts))
    const args = [
      ...['-q', '-B', '-f', join(work, 'pom.xml'), 'dependency:copy-dependencies'],
      ...[`-DoutputDirectory=${join(work, 'lib')}`, '-DincludeScope=runtime'],
    ]
    const outcome = await runProgram([findCommand('mvn')!, ...args])
    if (outcome.status !== 0)
      throw new EngineMissing(
        `Maven could not fetch ${artifacts.join(', ')}. Name a running ${name} in ${env}.\n` +
          endOf(outcome, 6),
      )
    // Another process may have fetched it meanwhile.
    if (!existsSync(folder)) renameSync(join(work, 'lib'), folder)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
  return folder
}

function pomOf(name: string, artifacts: readonly string[]): string {
  const dependencies = artifacts.map((artifact) => {
    const [group, id, version] = artifact.split(':')
    return `<dependency><groupId>${group}</groupId><artifactId>${id}</artifactId><version>${version}</version></dependency>`
  })
  return `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>sluice</groupId><artifactId>${name}</artifactId><version>1</version>
<dependencies>${dependencies.join('')}</dependencies></project>
`
}
