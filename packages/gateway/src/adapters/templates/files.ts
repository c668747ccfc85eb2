/**
 * Template files on disk: `<folder>/<template>/<channel>.<part>.liquid`, and `<part>.liquid` for every channel
 * without a part of its own. Files whose names begin with `_`, in the folder itself, are partials that its templates
 * may render. Everything is read once, at start; nothing is read while rendering.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SluiceError } from '../../errors.ts'
import { type Channel, channels } from '../../model.ts'

/** The parts of a message that a channel carries. */
export const partsOf = {
  email: ['subject', 'text', 'html'],
  sms: ['text'],
  push: ['title', 'text'],
  telegram: ['text'],
  slack: ['text', 'mrkdwn'],
  webhook: ['title', 'text'],
  websocket: ['title', 'text'],
} as const satisfies Record<Channel, readonly Part[]>

const parts = ['subject', 'title', 'text', 'html', 'mrkdwn'] as const
export type Part = (typeof parts)[number]

export interface PartFile {
  readonly path: string
  readonly source: string
  /** Absent: the part is for every channel that has none of its own. */
  readonly channel?: Channel
  readonly part: Part
}

interface TemplateFiles {
  readonly name: string
  readonly files: readonly PartFile[]
}

export interface TemplateFolder {
  readonly templates: readonly TemplateFiles[]
  /** Partials by file name: `_item.text.liquid`. */
  readonly partials: Readonly<Record<string, string>>
}

const partFile = new RegExp(`^(?:(${channels.join('|')})\\.)?(${parts.join('|')})\\.liquid$`)
const templateName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

/** Throws INVALID_CONFIG where the folder cannot be read or one of its files is not a template. */
export function readTemplates(folder: string): TemplateFolder {
  const templates: TemplateFiles[] = []
  const partials: Record<string, string> = Object.create(null)
  for (const entry of list(folder)) {
    const path = join(folder, entry.name)
    if (entry.name.startsWith('.')) continue
    if (entry.isDirectory()) templates.push({ name: checkedName(entry.name, path), files: readParts(path) })
    else if (entry.name.startsWith('_') && entry.name.endsWith('.liquid')) partials[entry.name] = read(path)
  }
  return { templates, partials }
}

function readParts(folder: string): readonly PartFile[] {
  const files: PartFile[] = []
  for (const entry of list(folder)) {
    if (!entry.name.endsWith('.liquid')) continue
    const path = join(folder, entry.name)
    const match = partFile.exec(entry.name)
    if (match === null)
      throw refused(path, `is named neither <part>.liquid nor <channel>.<part>.liquid (${parts.join(', ')})`)
    const channel = match[1] as Channel | undefined
    const part = match[2] as Part
    if (channel !== undefined && !(partsOf[channel] as readonly Part[]).includes(part)) {
      throw refused(path, `is a part that ${channel} does not have (it has ${partsOf[channel].join(', ')})`)
    }
    files.push({ path, source: read(path), ...(channel === undefined ? {} : { channel }), part })
  }
  if (files.length === 0) throw refused(folder, 'holds no part such as email.text.liquid or text.liquid')
  return files
}

function checkedName(name: string, path: string): string {
  if (!templateName.test(name))
    throw refused(path, 'is no name of a template (letters, digits, dots, dashes)')
  return name
}

function list(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
  } catch (error) {
    throw refused(folder, `cannot be read (${(error as Error).message})`, error)
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw refused(path, `cannot be read (${(error as Error).message})`, error)
  }
}

/** Makes the error for one invalid template file: its name, the place in it, and the reason. */
export function refused(path: string, message: string, cause?: unknown, line?: number): SluiceError {
  const where = line === undefined ? path : `${path}:${line}`
  return new SluiceError('INVALID_CONFIG', `the template ${where} ${message}`, {
    errors: [{ path, message, ...(line === undefined ? {} : { line }) }],
    cause,
  })
}
