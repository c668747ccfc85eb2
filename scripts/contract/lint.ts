/**
 * Lints the API descriptions by tools that others keep: redocly (MIT) and Spectral (Apache-2.0) the OpenAPI document,
 * Spectral the AsyncAPI one, whose rules parse it by the AsyncAPI parser (Apache-2.0). They are fetched when they are
 * first needed; neither an error nor a warning is accepted.
 */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

const redocly = '@redocly/cli@2.77.0'
const spectral = '@stoplight/spectral-cli@6.16.3'

/** `/ws` answers 101 alone, which no rule of the two knows as a success. */
const openApiRules = { extends: ['spectral:oas'], rules: { 'operation-success-response': 'off' } }
const redoclyRules = { extends: ['recommended'], rules: { 'operation-2xx-response': 'off' } }
/** The rule wants an address for mail; the project is reached by its repository. */
const asyncApiRules = { extends: ['spectral:asyncapi'], rules: { 'asyncapi-info-contact-properties': 'off' } }

/** Returns the complaints; empty where the descriptions are clean. */
export async function lintDescriptions(url: string, folder: string): Promise<string[]> {
  const write = (name: string, content: unknown): string => {
    const file = join(folder, name)
    writeFileSync(file, JSON.stringify(content, null, 2))
    return file
  }
  const fetched = async (name: string): Promise<string> =>
    write(name, await (await fetch(`${url}/${name}`)).json())
  const [openApi, asyncApi] = [await fetched('openapi.json'), await fetched('asyncapi.json')]
  const spectralLint = (document: string, rules: string): readonly string[] => [
    ...['--yes', '--package', spectral, 'spectral', 'lint', document],
    ...['--ruleset', rules, '--fail-severity', 'info'],
  ]
  const runs: readonly (readonly [string, readonly string[]])[] = [
    [
      'redocly',
      [
        ...['--yes', '--package', redocly, 'redocly', 'lint', openApi, '--max-problems', '1000'],
        ...['--config', write('redocly.yaml', redoclyRules), '--format', 'stylish'],
      ],
    ],
    ['Spectral, OpenAPI', spectralLint(openApi, write('spectral-openapi.json', openApiRules))],
    ['Spectral, AsyncAPI', spectralLint(asyncApi, write('spectral-asyncapi.json', asyncApiRules))],
  ]
  return runs.flatMap(([name, args]) => {
    const { status, stdout, stderr, error } = spawnSync('npx', [...args], {
      encoding: 'utf8',
      env: { ...process.env, REDOCLY_TELEMETRY: 'off' },
    })
    const text = `${stdout ?? ''}${stderr ?? ''}`
    // redocly answers 0 where there are warnings only.
    if (status !== 0 || /You have \d+ warning/.test(text))
      return [`${name} complains: ${error?.message ?? text.trim()}`]
    console.log(`✔ ${name}: no error and no warning`)
    return []
  })
}
