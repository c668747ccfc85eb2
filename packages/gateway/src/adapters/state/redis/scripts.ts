/** The Lua scripts of the state in Redis: joined from the files beside this one, and called by their hash. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { redisStore } from '@sluice/limits'

export interface Script {
  readonly text: string
  readonly sha: string
  /** True if its texts are answered as bytes. @defaultValue false */
  readonly inBytes?: boolean
}

const partOf = (name: string): string => readFileSync(new URL(`./${name}`, import.meta.url), 'utf8')

function scriptOf(...parts: readonly string[]): Script {
  const text = parts.join('\n')
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

export const onceScript = scriptOf(partOf('prologue.lua'), partOf('once.lua'))
export const accountsScript = scriptOf(
  partOf('prologue.lua'),
  partOf('account-columns.lua'),
  partOf('accounts.lua'),
)
export const roomScript = scriptOf(partOf('prologue.lua'), partOf('room-operations.lua'))
export const throttleScript = scriptOf(
  partOf('prologue.lua'),
  partOf('sorted-list.lua'),
  partOf('throttle-queue.lua'),
  partOf('throttle-operations.lua'),
)

/** The script of `@sluice/limits` as a function of its keys and arguments: it reads them by these names. */
function limitsFunction(): string {
  let source = ''
  redisStore({
    runnerOf(given) {
      source = given
      return () => Promise.reject(new Error('nothing is asked here'))
    },
  })
  return `local function limits(KEYS, ARGV)\n${source}\nend`
}

export const limitsScript: Script = {
  ...scriptOf(
    partOf('prologue.lua'),
    limitsFunction(),
    partOf('limit-subject.lua'),
    partOf('limit-operations.lua'),
  ),
  inBytes: true,
}

/** Every server is given them when it is registered. */
export const scripts: readonly Script[] = [
  onceScript,
  accountsScript,
  roomScript,
  throttleScript,
  limitsScript,
]
