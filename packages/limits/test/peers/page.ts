/**
 * The page about the suites of other limiters, made of the tables that the tests run:
 * `node --conditions=sluice-source packages/limits/test/peers/page.ts` writes docs/reference/peers.md anew.
 */
import { writeFileSync } from 'node:fs'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { byResponse } from './express-middleware.ts'
import { expressRateLimit } from './express-rate-limit.ts'
import { overlapOf, type PeerCase, type PeerSuite } from './peer.ts'
import { rateLimiterFlexible } from './rate-limiter-flexible.ts'
import { rollingRateLimiter } from './rolling-rate-limiter.ts'

export const pageFile = fileURLToPath(new URL('../../../../docs/reference/peers.md', import.meta.url))

const suites: readonly PeerSuite<never>[] = [rollingRateLimiter, rateLimiterFlexible, expressRateLimit]

const byResponseCases = overlapOf(expressRateLimit.cases.filter(({ differs }) => differs === byResponse)).all

export function page(): string {
  return `# Compared with the suites of other limiters

Three limiters that many come from have suites of tests. Each row below is what one case of theirs checks, in our own
words; the tests in \`packages/limits/test/peers\` run every row that means the same here, over the stores that the
suite is run over there. A row that differs says why; where part of it is the same, that part is run. None of their
code is used, and no row says that a limiter is better: only whether the same is promised. "Cases" is how many of
theirs a row stands for.

${suites.map(summary).join('\n')}

express-rate-limit waits for counting by response (\`skipFailedRequests\`, \`skipSuccessfulRequests\`): ${byResponseCases} of its cases.
rate-limiter-flexible is compared by its memory limiter and its union, which its other suites repeat for each
database; the tests here run the same rows over Redis as well.

Run them again: \`npm test -- --only limits/test/peers\`. This page is made of the same tables by
\`node --conditions=sluice-source packages/limits/test/peers/page.ts\`; a test holds it against them.

${suites.map(section).join('\n\n')}
`
}

function summary({ peer, version, cases }: PeerSuite<never>): string {
  const { same, all } = overlapOf(cases)
  const files = [...new Set(cases.map(({ file }) => file))].map((file) => {
    const part = overlapOf(cases.filter((row) => row.file === file))
    return `${file} ${part.same} of ${part.all}`
  })
  const parts = files.length === 1 ? '' : `: ${files.join(', ')}`
  return `- ${peer} ${version}: ${same} of ${all} cases mean the same${parts}.`
}

function section({ peer, cases }: PeerSuite<never>): string {
  return [
    `## ${peer}`,
    ['| suite | case | cases | here |', '|---|---|---|---|', ...cases.map(row)].join('\n'),
  ].join('\n\n')
}

function row({ file, behaviour, cases = 1, by, differs }: PeerCase<never>): string {
  const here = differs === undefined ? ['same', ...(by ? [by] : [])].join(': ') : `differs: ${differs}`
  return `| ${[file, behaviour, cases, here].join(' | ')} |`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(pageFile, page())
