/**
 * The source of the settings: the file with its lines, the variables that override it, and the folder of
 * relative paths. Readers of fields ask it for values and report their problems to it.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, isAbsolute, relative, resolve } from 'node:path'
import { pathText } from './check.ts'
import { type Environment, type Override, readEnvironment } from './environment.ts'
import { Problems } from './problems.ts'
import { type Path, parseYaml, type YamlFile } from './yaml-file.ts'

export interface LoadOptions {
  /**
   * The path of the file. @defaultValue SLUICE_CONFIG, else sluice.yaml in the working folder where there is
   * one
   */
  readonly path?: string
  readonly env: Environment
  /** The working folder, to which paths of the command line and of variables are relative. */
  readonly cwd: string
}

const usualFile = 'sluice.yaml'

/** Finds the file in force, as an absolute path; undefined without one. */
function fileOf(options: LoadOptions): string | undefined {
  const named = options.path ?? (options.env.SLUICE_CONFIG || undefined)
  if (named !== undefined) return resolve(options.cwd, named)
  const usual = resolve(options.cwd, usualFile)
  return existsSync(usual) ? usual : undefined
}

const noFile: YamlFile = { value: undefined, faults: [], lineOf: () => undefined }
/** Bytes of a key or password at most. */
const secretBytesMax = 65_536

export class Source {
  readonly problems = new Problems()
  /** The document of the file after the variables were put in. */
  readonly value: unknown
  readonly file: string | undefined
  readonly cwd: string
  readonly #yaml: YamlFile
  readonly #overrides: readonly Override[]
  /** Fields whose value was read from a file, and the field that names it. */
  readonly #filed = new Map<string, Path>()

  constructor(options: LoadOptions) {
    this.file = fileOf(options)
    this.cwd = options.cwd
    this.#yaml = this.file === undefined ? noFile : this.#read(this.file)
    for (const fault of this.#yaml.faults) {
      this.problems.add({
        ...this.#fileName(),
        path: pathText(fault.path),
        message: fault.message,
        ...lineField(fault.line),
      })
    }
    const { overrides, faults } = readEnvironment(options.env)
    this.#overrides = overrides
    for (const fault of faults) this.problems.add({ path: fault.variable, message: fault.message })
    // Every field that a variable replaces leaves before any is put in: two variables for one setting stay a fault.
    const inFile = overrides
      .flatMap(({ replaces }) => replaces)
      .reduce(without, withoutNulls(this.#yaml.value))
    this.value = overrides.reduce(withOverride, inFile ?? {})
  }

  /** True where the file could be read at all, so that its fields can be checked. */
  get readable(): boolean {
    return this.#yaml.faults.length === 0
  }

  /** Notes a problem of a field, by its line or by the variable that set it. */
  fault(path: Path, message: string): undefined {
    const filed = this.#filed.get(pathText(path))
    if (filed !== undefined) return this.fault(filed, `names a file whose content does not serve: ${message}`)
    const variable = this.#variableOf(path)
    if (variable !== undefined) this.problems.add({ path: variable, message })
    else
      this.problems.add({
        ...this.#fileName(),
        path: pathText(path),
        message,
        ...lineField(this.#yaml.lineOf(path)),
      })
    return undefined
  }

  /**
   * True where a field, its content and the fields around it have no problem; for `[]`, where the file as such
   * has none.
   */
  isClean(path: Path): boolean {
    const field = pathText(path)
    return !this.problems.found.some((problem) => {
      const wrong = this.#fieldOf(problem.path)
      return wrong === '' || (field !== '' && (isWithin(wrong, field) || isWithin(field, wrong)))
    })
  }

  /** Returns the valid fields of an object. */
  sound<Fields extends object>(path: Path, value: Fields | undefined): Fields {
    const fields = isFields(value) ? Object.entries(value) : []
    return Object.fromEntries(fields.filter(([key]) => this.isClean([...path, key]))) as Fields
  }

  /**
   * Resolves a path: relative to the file that names it; for a variable or a default, to the working folder.
   */
  resolve(path: Path, named: string): string {
    const inFile = this.file !== undefined && this.#variableOf(path) === undefined
    return resolve(inFile ? dirname(this.file) : this.cwd, named)
  }

  /** Reads a secret that may stand in a file of its own; `path` is that of the field without `File`. */
  secret(path: Path, text: string | undefined, file: string | undefined): string | undefined {
    if (file === undefined) return text
    const filePath = [...path.slice(0, -1), `${String(path.at(-1))}File`]
    if (text !== undefined)
      return this.fault(filePath, `stands beside ${String(path.at(-1))}; one of them is expected`)
    try {
      const read = readFileSync(this.resolve(filePath, file), 'utf8').trim()
      if (read === '' || read.length > secretBytesMax)
        return this.fault(filePath, 'names a file without a secret in it')
      this.#filed.set(pathText(path), filePath)
      return read
    } catch (error) {
      return this.fault(filePath, `names a file that cannot be read (${reasonOf(error)})`)
    }
  }

  /** Assigns a problem of a variable to the field that it sets. */
  #fieldOf(problemPath: string): string {
    const override = this.#overrides.find(({ variable }) => variable === problemPath)
    return override === undefined ? problemPath : pathText(override.path)
  }

  #variableOf(path: Path): string | undefined {
    const of = pathText(path)
    return this.#overrides.find((override) => isWithin(of, pathText(override.path)))?.variable
  }

  #fileName(): { file?: string } {
    return this.file === undefined ? {} : { file: shownFile(this.file, this.cwd) }
  }

  #read(file: string): YamlFile {
    const read = readTextFile(file)
    return read.ok ? parseYaml(read.text) : { ...noFile, faults: [{ path: [], message: read.message }] }
  }
}

export function readTextFile(
  file: string,
): { readonly ok: true; readonly text: string } | { readonly ok: false; readonly message: string } {
  try {
    const bytes = readFileSync(file)
    return { ok: true, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch (error) {
    const message = error instanceof TypeError ? 'is not UTF-8 text' : `cannot be read (${reasonOf(error)})`
    return { ok: false, message }
  }
}

/** Shows a file relative to the working folder where that is shorter. */
export function shownFile(file: string, cwd: string): string {
  const near = relative(cwd, file)
  return near === '' || near.startsWith('..') || isAbsolute(near) ? file : near
}

function lineField(line: number | undefined): { line?: number } {
  return line === undefined ? {} : { line }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is none',
  EACCES: 'permission denied',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is no folder',
}

export function reasonOf(error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code ?? ''
  return reasons[code] ?? (code === '' ? 'unknown reason' : code)
}

/**
 * True where one path lies within another: `pools.email` within `pools`, `accounts[0]` within `accounts`, and
 * each within itself.
 */
function isWithin(path: string, of: string): boolean {
  return path === of || path.startsWith(`${of}.`) || path.startsWith(`${of}[`)
}

type Fields = Readonly<Record<string, unknown>>

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Removes keys with an empty value: they count as missing. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (!isFields(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, entry]) => entry !== null)
      .map(([key, entry]) => [key, withoutNulls(entry)]),
  )
}

/** Removes a field from the document, where it is there. */
function without(value: unknown, [step, ...rest]: Path): unknown {
  if (step === undefined || !isFields(value) || !Object.hasOwn(value, step)) return value
  const { [step]: field, ...others } = value
  return rest.length === 0 ? others : { ...others, [step]: without(field, rest) }
}

/**
 * Puts the value of a variable into the document. Where something else than an object is in the way, the check
 * refuses that.
 */
function withOverride(value: unknown, override: Override): unknown {
  const put = (at: unknown, path: Path): unknown => {
    const [step, ...rest] = path
    if (step === undefined) return override.value
    if (at !== undefined && !isFields(at)) return at
    return { ...at, [step]: put(at?.[step], rest) }
  }
  return put(value, override.path)
}
