/**
 * Fetches the programs of another version of PostgreSQL from Maven's central repository, built by the project
 * embedded-postgres-binaries (Apache-2.0) for any Linux; Debian has one version only. They are kept in `.services/`.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { EngineMissing, endOf, ensureInstalled, runProgram } from './install.ts'
import { fetchJars } from './maven.ts'

const releases = { '14': '14.18.0', '16': '16.9.0', '17': '17.5.0' } as const

export type PostgresVersion = keyof typeof releases

const machines: Readonly<Record<string, { readonly artifact: string; readonly archive: string }>> = {
  x64: { artifact: 'linux-amd64', archive: 'postgres-linux-x86_64.txz' },
  arm64: { artifact: 'linux-arm64v8', archive: 'postgres-linux-arm_64.txz' },
}

/** Returns the folder of the programs of this version. @throws {EngineMissing} */
export async function fetchPostgresPrograms(version: PostgresVersion): Promise<string> {
  const machine = process.platform === 'linux' ? machines[process.arch] : undefined
  if (machine === undefined)
    throw new EngineMissing(
      `there are no programs of PostgreSQL ${version} for ${process.platform} on ${process.arch}; name a folder with them in SLUICE_POSTGRES_PROGRAMS`,
    )
  const name = `embedded-postgres-binaries-${machine.artifact}`
  const release = releases[version]
  const folder = await fetchJars({
    name: `postgres-${version}`,
    artifacts: [`io.zonky.test.postgres:${name}:${release}`],
    env: 'SLUICE_TEST_POSTGRES',
  })
  const programs = join(folder, 'bin')
  if (existsSync(programs)) return programs
  await ensureInstalled({
    engine: `postgres ${version}`,
    commands: ['unzip', 'xz'],
    packages: ['unzip', 'xz-utils'],
  })
  for (const words of [
    ['unzip', '-o', '-q', `${name}-${release}.jar`, machine.archive],
    ['tar', '-xJf', machine.archive],
  ] as const) {
    const outcome = await runProgram(words, { cwd: folder })
    if (outcome.status !== 0)
      throw new EngineMissing(`${words[0]} could not unpack PostgreSQL ${version}: ${endOf(outcome, 6)}`)
  }
  return programs
}
