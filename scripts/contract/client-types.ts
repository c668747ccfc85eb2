/** Types that openapi-typescript (MIT) makes of the document, used as a client would, and compiled. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const generator = 'openapi-typescript@7.13.0'
const tsc = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url))

/** Mistakes that must not compile: else the types check nothing. */
const client = `import type { components, paths } from './types.ts'

type Send = paths['/api/v1/notifications']['post']
export const body: Send['requestBody']['content']['application/json'] = {
  recipient: { id: 'user-42', email: 'ada@example.com' },
  channel: 'email',
  content: { subject: 'Hello', text: 'World' },
}
export const byId: Send['requestBody']['content']['application/json']['recipient'] = 'user-42'
// @ts-expect-error there is no such channel
export const wrong: Send['requestBody']['content']['application/json'] = { ...body, channel: 'fax' }

export function idOf(answer: Send['responses']['202']['content']['application/json']): string {
  return answer.notificationId
}
export function detailOf(problem: Send['responses']['429']['content']['application/problem+json']): string {
  return problem.detail
}
type BatchAnswer = paths['/api/v1/notifications/batch']['post']['responses']['202']['content']['application/json']
export function howMany(answer: BatchAnswer): number | string {
  return 'jobId' in answer ? answer.jobId : answer.results.length
}
export function delivered(job: components['schemas']['Job']): number {
  return job.status === 'running' ? 0 : (job.counts.delivered ?? 0)
}
/** Sends one, and asks why: the answers are read by the generated types alone. */
export async function sentence(url: string): Promise<string> {
  const headers = { 'content-type': 'application/json' }
  const sent = await fetch(\`\${url}/api/v1/notifications\`, { method: 'POST', headers, body: JSON.stringify(body) })
  const id = idOf(await sent.json())
  const found = await fetch(\`\${url}/api/v1/notifications/\${id}?explain=true\`)
  const notification: components['schemas']['Notification'] = await found.json()
  return notification.explanation?.text ?? ''
}
export function states(page: components['schemas']['NotificationPage']): readonly string[] {
  return page.items.flatMap((item) => item.timeline.map(({ status }) => status))
}
`

/** The expectations that fail; empty where the types compile. */
export async function checkTypes(document: string, folder: string): Promise<string[]> {
  const types = join(folder, 'types.ts')
  const made = spawnSync('npx', ['--yes', generator, document, '--output', types], { encoding: 'utf8' })
  if (made.status !== 0) return [`${generator} made no types: ${made.error?.message ?? made.stderr.trim()}`]
  writeFileSync(join(folder, 'client.ts'), client)
  const compilerOptions = {
    ...{ noEmit: true, strict: true, skipLibCheck: false, types: [], target: 'esnext' },
    lib: ['esnext', 'dom'],
    ...{ module: 'nodenext', allowImportingTsExtensions: true },
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['client.ts'] }))
  const compiled = spawnSync(tsc, ['-p', folder], { encoding: 'utf8' })
  if (compiled.status !== 0) return [`the types of ${generator} do not compile:\n${compiled.stdout.trim()}`]
  const loaded: unknown = await import(pathToFileURL(join(folder, 'client.ts')).href)
  const { sentence } = loaded as { readonly sentence: (url: string) => Promise<string> }
  const text = await sentence(new URL(document).origin)
  if (!/^[A-Z].*\.$/.test(text)) return [`the client of the generated types read no explanation: "${text}"`]
  console.log(`✔ ${generator} makes types that compile, and a client of them works: ${text}`)
  return []
}
