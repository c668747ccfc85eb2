/**
 * Runs the scripts of Redis in this process: translated to JavaScript, over keys in memory. It answers what a client of
 * Redis is answered. A question takes a few microseconds where one over a socket costs both processes a hundred.
 */
import type { Reply } from '../redis/redis-answers.ts'
import type { Script } from '../redis/scripts.ts'
import { bytesOf } from './lua-packing.ts'
import { type Translated, translate } from './lua-translate.ts'
import { LuaError, type LuaResult, LuaTable, type LuaValue, one, Packed } from './lua-values.ts'
import { createCommands, type Keys } from './redis-commands.ts'

const isAscii = (text: string): boolean => {
  for (let index = 0; index < text.length; index += 1) if (text.charCodeAt(index) > 127) return false
  return true
}
/** A text as the bytes of UTF-8 that it is sent as, one character a byte. */
const bytesOfText = (text: string): string => (isAscii(text) ? text : Buffer.from(text).toString('latin1'))
const textOfBytes = (bytes: string): string =>
  isAscii(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString()

const translated = new Map<Script, Translated>()

function functionOf(script: Script): Translated {
  let run = translated.get(script)
  if (run === undefined) {
    run = translate(script.text)
    translated.set(script, run)
  }
  return run
}

function replyOf(value: LuaValue, inBytes: boolean): Reply {
  if (typeof value === 'number') return Math.trunc(value)
  if (value === true) return 1
  if (value === undefined || value === false) return null
  if (value instanceof Packed) return replyOf(bytesOf(value).toString('latin1'), inBytes)
  if (typeof value === 'string') return inBytes ? Buffer.from(value, 'latin1') : textOfBytes(value)
  if (typeof value === 'function') throw new LuaError('a function is no answer')
  const status = value.map?.get('ok')
  if (typeof status === 'string') return status
  const error = value.map?.get('err')
  if (typeof error === 'string') throw new Error(error)
  const end = value.list.indexOf(undefined)
  return (end < 0 ? value.list : value.list.slice(0, end)).map((each) => replyOf(each, inBytes))
}

/** Runs a script over keys. @throws {Error} where Redis answers an error */
export function runScript(
  keys: Keys,
  script: Script,
  names: readonly string[],
  args: readonly string[],
): Reply {
  asked = keys
  const answered: LuaResult = functionOf(script)(
    commands,
    new LuaTable(names.map(bytesOfText)),
    new LuaTable(args.map(bytesOfText)),
  )
  return replyOf(one(answered), script.inBytes === true)
}

/** The keys of the server that is asked. Scripts run one after the other. */
let asked: Keys = new Map()
const commands = createCommands(() => asked)
