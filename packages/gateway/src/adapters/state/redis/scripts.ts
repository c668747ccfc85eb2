/** The Lua scripts of the state in Redis: joined from the files beside this one, and called by their hash. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

export interface Script {
  readonly text: string
  readonly sha: string
}

function scriptOf(...parts: readonly string[]): Script {
  const text = parts.map((part) => readFileSync(new URL(`./${part}`, import.meta.url), 'utf8')).join('\n')
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

export const onceScript = scriptOf('once.lua')
export const roomScript = scriptOf('prologue.lua', 'room-operations.lua')
export const throttleScript = scriptOf(
  'prologue.lua',
  'sorted-list.lua',
  'throttle-queue.lua',
  'throttle-operations.lua',
)

/** Every server is given them when it is registered. */
export const scripts: readonly Script[] = [onceScript, roomScript, throttleScript]
