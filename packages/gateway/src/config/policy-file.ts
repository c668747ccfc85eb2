/**
 * Loads the policy from its file: parsed with its lines, compiled by policy/compile.ts, and with mistakes
 * reported by line. Without a file of the operator the built-in policy applies.
 */
import { fileURLToPath } from 'node:url'
import { SluiceError } from '../errors.ts'
import type { JsonObject } from '../model.ts'
import { compilePolicy } from '../policy/compile.ts'
import { pathText } from './check.ts'
import type { PolicyConfig } from './config.ts'
import { Problems } from './problems.ts'
import { readTextFile, shownFile } from './source.ts'
import { type Path, parseYaml } from './yaml-file.ts'

export const builtInPolicyFile = fileURLToPath(new URL('../../policy/default.yaml', import.meta.url))

export interface PolicyFileOptions {
  /** Absolute. @defaultValue the built-in policy */
  readonly file?: string
  /** The folder to which messages show the file as relative. */
  readonly cwd: string
}

/**
 * @throws SluiceError `INVALID_POLICY` with every mistake, by file and line
 */
export function loadPolicy(options: PolicyFileOptions): PolicyConfig {
  if (options.file !== undefined) return readPolicy(options)
  builtIn ??= readPolicy(options)
  return builtIn
}

/** It does not change while the process runs, and reading it takes some 10 ms. */
let builtIn: PolicyConfig | undefined

function readPolicy(options: PolicyFileOptions): PolicyConfig {
  const file = options.file ?? builtInPolicyFile
  const shown = shownFile(file, options.cwd)
  const problems = new Problems()
  const read = readTextFile(file)
  if (!read.ok) {
    problems.add({ file: shown, path: '', message: read.message })
    problems.throwIfAny('INVALID_POLICY')
    throw new TypeError('unreachable')
  }
  const yaml = parseYaml(read.text)
  for (const { path, message, line } of yaml.faults) {
    problems.add({ file: shown, path: pathText(path), message, ...(line === undefined ? {} : { line }) })
  }
  problems.throwIfAny('INVALID_POLICY')
  try {
    const compiled = compilePolicy((yaml.value ?? {}) as JsonObject)
    return { file, builtIn: options.file === undefined, compiled }
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    for (const { path, message } of error.errors ?? [{ path: '', message: error.message }]) {
      const line = yaml.lineOf(stepsOf(path))
      problems.add({ file: shown, path, message, ...(line === undefined ? {} : { line }) })
    }
    problems.throwIfAny('INVALID_POLICY')
    throw error
  }
}

/**
 * Splits `limits[3].over` into limits, 3, over. A key that holds a dot is not found again, and gives the line
 * above it.
 */
function stepsOf(path: string): Path {
  return [...path.matchAll(/\[(\d+)\]|([^.[\]]+)/g)].map(([, index, key]) =>
    index === undefined ? key! : Number(index),
  )
}
