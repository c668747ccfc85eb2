/** Programs and tests that use the library in an empty folder, made of the samples of its README. */

export interface Samples {
  /** The first sample and what it prints. */
  readonly code: string
  readonly output: string
  /** All samples together, for the compiler. */
  readonly typed: { readonly imports: string; readonly body: string }
  readonly runners: Readonly<Record<string, { file: string; text: string; args: readonly string[] }>>
}

/** Takes the samples out of the README. @throws {Error} where the first has no output below it */
export function readSamples(readme: string): Samples {
  const first = /```ts\n(.*?)```\s*```text\n(.*?)```/s.exec(readme)
  if (first === null) throw new Error('the README begins with no sample that prints something')
  const [, code = '', output = ''] = first
  const all = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, sample = '']) => sample)
  const lines = all.map((sample) => sample.split('\n'))
  const isImport = (line: string): boolean => line.startsWith('import ')
  const imports = [...lines.flat().filter(isImport), ...surroundings.imports].join('\n')
  const bodies = lines.map((sample, index) => {
    const own = sample.filter((line) => !isImport(line)).join('\n')
    // The first declares `limits`, which those behind it use.
    return index === 0 ? own : `{\n${own}\n}`
  })
  const body = [surroundings.body, ...bodies].join('\n')
  return { code, output, typed: { imports, body }, runners: runnersOf(code, output) }
}

/** Names that the samples take for granted. */
const surroundings = {
  imports: [
    `import { createSlotLeases, redisSlots, redisStore } from '@sluice/limits'`,
    `import express from 'express'`,
    `import { Redis } from 'ioredis'`,
  ],
  body: `const client = new Redis()
const app = express()
const send = (): void => {}
void [createFastifyLimiter, createHonoLimiter, redisStore]`,
}

const isCommonJs = (file: string): boolean => file.endsWith('.cjs')

/** The sample without types: the same text, imported or required. */
function sampleOf(code: string, file: string): string {
  if (!isCommonJs(file)) return code
  const body = code.replace(/^import (\{.*\}) from '(.*)'/, `const $1 = require('$2')`)
  return `(async () => {\n${body}\n})()`
}

function overRedis(client: string, url: string): string {
  return `${client}
import { createLimits, limit, redisStore } from '@sluice/limits'
const limits = createLimits({ store: redisStore(client, { prefix: \`\${Math.random()}:\`, deadlineMs: 5_000 }) })
const rules = [limit('two', '2/day')]
const allowed = []
for (let call = 0; call < 3; call += 1) allowed.push((await limits.take('user:42', rules)).allowed)
allowed.push((await limits.reserve('user:42', rules, { id: 'n-1' })).at > Date.now())
console.log(allowed.join(' '))
await client.${url}()
`
}

interface Program {
  readonly what: string
  readonly text: (samples: Samples) => string
  readonly output: (samples: Samples) => string
}

const overRedisPrints = (): string => 'true true false true\n'

/** Programs by their file. */
export const programs: Readonly<Record<string, Program>> = {
  'sample.mjs': {
    what: 'ES module',
    text: ({ code }) => sampleOf(code, 'sample.mjs'),
    output: ({ output }) => output,
  },
  'sample.cjs': {
    what: 'CommonJS',
    text: ({ code }) => sampleOf(code, 'sample.cjs'),
    output: ({ output }) => output,
  },
  'middleware.mjs': {
    what: 'middleware',
    text: () => `import { createLimits, limit } from '@sluice/limits'
import { createExpressLimiter } from '@sluice/limits/express'
import { createFastifyLimiter } from '@sluice/limits/fastify'
import { createHonoLimiter } from '@sluice/limits/hono'
const made = [createExpressLimiter, createFastifyLimiter, createHonoLimiter].map((create) =>
  create({ limits: createLimits(), rules: [limit('two', '2/day')] }))
console.log(made.map((each) => typeof each).join(' '))
`,
    output: () => 'function function function\n',
  },
  'ioredis.mjs': {
    what: 'Redis by ioredis',
    text: () =>
      overRedis(
        `import { Redis } from 'ioredis'
const client = new Redis(process.env.SLUICE_TRY_REDIS, { enableAutoPipelining: true })`,
        'quit',
      ),
    output: overRedisPrints,
  },
  'node-redis.mjs': {
    what: 'Redis by node-redis',
    text: () =>
      overRedis(
        `import { createClient } from 'redis'
const client = await createClient({ url: process.env.SLUICE_TRY_REDIS }).connect()`,
        'close',
      ),
    output: overRedisPrints,
  },
}

/** The sample as a test that has no settings, with the clock of the runner held still. */
function runnersOf(code: string, output: string): Samples['runners'] {
  const body = code.replace(/^import .*\n/, '').replaceAll('console.log(', 'log(')
  const test = (fake: string): string => `test('the sample prints what the README says', async () => {
  const lines = []
  const log = (...values) => lines.push(values.map(String).join(' '))
  ${body}
  expect(lines.join('\\n') + '\\n').toBe(${JSON.stringify(output)})
})
test('fake timers move the memory limiter', async () => {
  ${fake}.useFakeTimers({ now: 1_800_000_000_000 })
  const limits = createLimits()
  const rules = [limit('one', '1/min')]
  const allowed = []
  for (let call = 0; call < 3; call += 1) {
    allowed.push((await limits.take('user:42', rules)).allowed)
    ${fake}.advanceTimersByTime(30_000)
  }
  ${fake}.useRealTimers()
  expect(allowed).toEqual([true, false, true])
})
`
  const names = '{ createLimits, limit, memoryStore }'
  return {
    jest: {
      file: 'sample.test.js',
      text: `const ${names} = require('@sluice/limits')\n${test('jest')}`,
      args: ['--rootDir=.'],
    },
    vitest: {
      file: 'sample.test.mjs',
      text: `import { expect, test, vi } from 'vitest'\nimport ${names} from '@sluice/limits'\n${test('vi')}`,
      args: ['run', '--root=.'],
    },
  }
}
