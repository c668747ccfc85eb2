/** schemathesis (MIT) in an environment of its own under `.services/`, and one run of it. */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const version = '4.32.5'
const home = fileURLToPath(new URL(`../../.services/schemathesis-${version}`, import.meta.url))
const program = join(home, 'bin', 'schemathesis')

/**
 * Checks that every answer must pass. Whether good data is accepted is not among them: templates and pools have a
 * say.
 */
const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
  'missing_required_header',
  'unsupported_method',
  'allow_header_conformance',
  'use_after_free',
]
/** A stream has no end, and each of its answers would wait for the time-out. */
const endless = ['/api/v1/events', '/api/v1/overview/stream', '/api/v1/pools/stream']
/** The share of the requested cases that each operation must try: many have fewer different ones. */
const operations = 40

export interface SchemathesisRun {
  readonly document: string
  readonly cases: number
  readonly seed: number
  /** A regular expression of the paths that are tried, each operation with as many cases. @defaultValue all paths */
  readonly only?: string
  /** It is stopped, and has failed, when it has not ended by then. */
  readonly minutes: number
  readonly folder: string
}

function install(): void {
  if (existsSync(program)) return
  console.error(`installing schemathesis ${version} …`)
  for (const [command, ...args] of [
    ['python3', '-m', 'venv', home],
    [
      join(home, 'bin', 'pip'),
      'install',
      '--quiet',
      '--disable-pip-version-check',
      `schemathesis==${version}`,
    ],
  ] as const) {
    const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
    if (status !== 0)
      throw new Error(`schemathesis needs Python 3 with venv and pip: ${error?.message ?? stderr.trim()}`)
  }
}

/** The failures found; empty where every check holds. */
export async function runSchemathesis({
  document,
  cases,
  seed,
  only,
  minutes,
  folder,
}: SchemathesisRun): Promise<string[]> {
  install()
  const examples = only === undefined ? Math.ceil(cases / operations) : cases
  const args = [
    ...['run', document, '--seed', String(seed), '--max-examples', String(examples)],
    ...(only === undefined ? [] : ['--include-path-regex', only]),
    ...endless.flatMap((path) => ['--exclude-path', path]),
    // With two workers its own compiler of patterns fails now and then (CPython 3.11, in two threads at once).
    ...['--checks', checks.join(','), '--workers', '1'],
    ...['--request-timeout', '20', '--continue-on-failure', '--no-color'],
  ]
  const timeout = minutes * 60_000
  const child = spawn(program, args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'], timeout })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text
    process.stdout.write(text)
  })
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  const generated = Number(/(\d+) generated/.exec(said)?.[1] ?? 0)
  const failures: string[] = []
  if (code === null) failures.push(`schemathesis has not ended within ${minutes} minutes`)
  else if (code !== 0) failures.push(`schemathesis found something: exit code ${code}, see above`)
  if (generated < cases) failures.push(`only ${generated} of ${cases} cases were generated`)
  return failures
}
