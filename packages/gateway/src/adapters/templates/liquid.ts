/**
 * Liquid templates, parsed once at start. A template is a folder with one file for each part of a message; a part
 * that a channel lacks is taken from the parts without a channel. Values in HTML are escaped unless a template says
 * `raw`, subjects and titles are one line, and a missing variable is empty text.
 */
import { fileURLToPath } from 'node:url'
import { Liquid, type Template } from 'liquidjs'
import { SluiceError } from '../../errors.ts'
import { type Channel, type Content, channels, type JsonObject } from '../../model.ts'
import type { Templates } from '../../ports.ts'
import { escapeSlack } from '../../providers/slack/escape.ts'
import { type Part, type PartFile, partsOf, readTemplates, refused } from './files.ts'
import { summary } from './summary.ts'

/** The folder of the built-in templates; it lies beside `src` and `dist` alike. */
export const builtInTemplates = fileURLToPath(new URL('../../../templates', import.meta.url))

export interface TemplatesOptions {
  /** Folders in the order of their precedence: a template that an earlier folder has is that folder's alone. */
  readonly folders: readonly string[]
  /**
   * Time limit of rendering one part, ms of the wall clock. Generous, because a busy machine must not fail a message:
   * the allocation limit is the actual bound. @defaultValue 10_000
   */
  readonly renderMsMax?: number
  /** Allocation limit of one part: characters and elements, as liquidjs counts them. @defaultValue 20_000_000 */
  readonly memoryMax?: number
  /** Most characters of one rendered part. @defaultValue 2_000_000 */
  readonly outputMax?: number
}

interface Compiled {
  readonly file: PartFile
  readonly engine: Liquid
  readonly nodes: Template[]
}

type Key = `${Channel}.${Part}` | Part

type CompiledFolder = ReadonlyMap<string, ReadonlyMap<Key, Compiled>>

interface EngineLimits {
  readonly renderLimit: number
  readonly memoryLimit: number
}

function compileFolder(folder: string, limits: EngineLimits): CompiledFolder {
  const { templates, partials } = readTemplates(folder)
  const engines = createEngines(partials, limits)
  for (const [name, source] of Object.entries(partials)) {
    for (const engine of Object.values(engines)) parse(engine, source, `${folder}/${name}`)
  }
  return new Map(
    templates.map(({ name, files }) => {
      const compiled = new Map<Key, Compiled>()
      for (const file of files) {
        const engine = file.part === 'html' || file.part === 'mrkdwn' ? engines[file.part] : engines.text
        const key: Key = file.channel === undefined ? file.part : `${file.channel}.${file.part}`
        compiled.set(key, { file, engine, nodes: parse(engine, file.source, file.path) })
      }
      return [name, compiled]
    }),
  )
}

const compiledBuiltIn = new Map<string, CompiledFolder>()
/** The templates that ship do not change while the process runs: they are compiled once, and not again by each reload. */
function builtIn(limits: EngineLimits): CompiledFolder {
  const key = JSON.stringify(limits)
  const compiled = compiledBuiltIn.get(key) ?? compileFolder(builtInTemplates, limits)
  compiledBuiltIn.set(key, compiled)
  return compiled
}

/** Throws INVALID_CONFIG, with file and line, where a template is not valid. */
export function createTemplates(
  options: TemplatesOptions,
): Templates & { readonly names: readonly string[] } {
  const { renderMsMax = 10_000, memoryMax = 10_000_000, outputMax = 1_000_000 } = options
  const templates = new Map<string, ReadonlyMap<Key, Compiled>>()
  const limits = { renderLimit: renderMsMax, memoryLimit: memoryMax }
  for (const folder of options.folders)
    for (const [name, compiled] of folder === builtInTemplates
      ? builtIn(limits)
      : compileFolder(folder, limits))
      if (!templates.has(name)) templates.set(name, compiled)

  function render(name: string, channel: Channel, locals: JsonObject): Content {
    const template = templates.get(name)
    if (template === undefined)
      throw new SluiceError('INVALID_REQUEST', `there is no template ${JSON.stringify(name)}`)
    const content: { -readonly [part in Part]?: string } = {}
    for (const part of partsOf[channel]) {
      const compiled = template.get(`${channel}.${part}`) ?? template.get(part)
      if (compiled !== undefined) content[part] = renderPart(compiled, name, locals)
    }
    if (content.text === undefined && content.html === undefined && content.mrkdwn === undefined) {
      throw new SluiceError('INVALID_REQUEST', `the template ${name} has no text for the channel ${channel}`)
    }
    return content
  }

  function renderPart({ file, engine, nodes }: Compiled, name: string, locals: JsonObject): string {
    let text: string
    try {
      text = engine.renderSync(nodes, locals) as string
    } catch (error) {
      const message = firstLine((error as Error).message)
      throw new SluiceError(
        'INVALID_REQUEST',
        `the template ${name} (${file.part}) cannot be rendered: ${message}`,
        {
          cause: error,
        },
      )
    }
    if (text.length > outputMax) {
      throw new SluiceError(
        'INVALID_REQUEST',
        `the template ${name} (${file.part}) renders more than ${outputMax} characters`,
      )
    }
    return file.part === 'subject' || file.part === 'title' ? oneLine(text) : text.trim()
  }

  const channelsOf = new Map(
    Array.from(templates, ([name, compiled]) => [
      name,
      new Set(channels.filter((channel) => carries(compiled, channel))),
    ]),
  )
  return {
    has: (name) => templates.has(name),
    carried: {
      has: (name, channel) => channelsOf.get(name)?.has(channel) === true,
      keys: [...channelsOf].flatMap(([name, own]) => Array.from(own, (channel) => `${name}/${channel}`)),
    },
    hasSubject(name, channel) {
      const template = templates.get(name)
      return template?.has(`${channel}.subject`) === true || template?.has('subject') === true
    },
    render,
    names: [...templates.keys()].sort(),
  }
}

/** Tests if a template has a text for the channel, in one of the forms without which nothing is rendered. */
function carries(template: ReadonlyMap<Key, Compiled>, channel: Channel): boolean {
  const texts = partsOf[channel].filter((part) => part !== 'subject' && part !== 'title')
  return texts.some((part) => template.has(`${channel}.${part}`) || template.has(part))
}

function createEngines(
  partials: Readonly<Record<string, string>>,
  limits: { renderLimit: number; memoryLimit: number },
) {
  // Each engine gets an object of its own: liquidjs writes its cache into it, and a partial that was parsed without
  // escaping must never be found by the engine that escapes.
  const settings = () => ({
    ...limits,
    // Names are looked up in this map and nowhere else: no template can read a file.
    templates: { ...partials },
    extname: '.liquid',
    cache: true,
    ownPropertyOnly: true,
    strictFilters: true,
    strictVariables: false,
    timezoneOffset: 0,
    locale: 'en-US',
    parseLimit: 1_000_000,
  })
  const engines = {
    text: new Liquid(settings()),
    html: new Liquid({ ...settings(), outputEscape: 'escape' }),
    mrkdwn: new Liquid({ ...settings(), outputEscape: escapeSlack }),
  }
  for (const engine of Object.values(engines)) engine.registerFilter('summary', summary)
  return engines
}

function parse(engine: Liquid, source: string, path: string): Template[] {
  try {
    return engine.parse(source, path)
  } catch (error) {
    const { message } = error as Error
    const line = /line:(\d+)/.exec(message)?.[1]
    throw refused(
      path,
      `is not valid Liquid: ${firstLine(message)}`,
      error,
      line === undefined ? undefined : Number(line),
    )
  }
}

/**
 * Replaces line breaks of any kind (also those that only Unicode knows) and other controls, so that no value ends a
 * header or a title.
 */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029\s]+/gu, ' ').trim()
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? ''
}
