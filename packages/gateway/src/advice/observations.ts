/**
 * Reads observations: a CSV file (RFC 4180) in which a line counts the recipients that got so many messages a week, and
 * how many of them engaged and churned. Every mistake is told with its line and column. A file of a few numbers needs no
 * parser of 1.7 MB (csv-parse; decision 0028). Pure.
 */
import { type FieldError, SluiceError } from '../errors.ts'

export interface Observation {
  /** Messages a week. */
  readonly frequency: number
  readonly people: number
  readonly engaged: number
  readonly churned: number
  /** Messages delivered to them, and complaints about those; absent where the file does not count them. */
  readonly delivered?: number
  readonly complaints?: number
  readonly segment?: string
}

const needed = ['frequency', 'people', 'engaged', 'churned'] as const
const counts = ['people', 'engaged', 'churned', 'delivered', 'complaints'] as const
const known: readonly string[] = [...needed, 'delivered', 'complaints', 'segment']

/** Lines and characters at most: groups of recipients are some tens. */
const linesMax = 100_000
const charactersMax = 16_777_216
const problemsMax = 20
/** Messages a week at most: one a minute. */
const frequencyMax = 10_080

interface CsvRow {
  readonly number: number
  readonly cells: readonly string[]
}

/**
 * Reads the text of a file.
 *
 * @param file the name of the file, for messages
 * @throws SluiceError `INVALID_OBSERVATIONS`, with every mistake by line
 */
export function readObservations(text: string, file: string): Observation[] {
  const problems: FieldError[] = []
  const fault = (line: number, path: string, message: string): void => {
    if (problems.length < problemsMax) problems.push({ path, message, line })
  }
  if (text.length > charactersMax) fault(1, '', `is larger than ${charactersMax} characters`)
  const [header, ...lines] = problems.length > 0 ? [] : linesOf(text, fault)
  const columns = (header?.cells ?? []).map((cell) => cell.trim().toLowerCase())
  if (problems.length === 0) checkHeader(columns, fault)
  if (problems.length === 0 && lines.length > linesMax)
    fault(1, '', `has more than ${linesMax} lines; a line is a group of recipients, not one of them`)
  const observations = problems.length > 0 ? [] : lines.map((line) => observationOf(line, columns, fault))
  if (problems.length === 0 && lines.length === 0) fault(1, '', 'has no line below its header')
  if (problems.length > 0) {
    const texts = problems.map(({ path, message, line }) =>
      [`${file}:${line}`, ...(path === '' ? [] : [path]), message].join(': '),
    )
    throw new SluiceError('INVALID_OBSERVATIONS', texts.join('\n'), { errors: problems })
  }
  return observations
}

type FaultListener = (line: number, path: string, message: string) => void

/** Splits a text into lines of cells; quoted cells may hold commas, quotes and line ends. Empty lines are left out. */
function linesOf(text: string, fault: FaultListener): CsvRow[] {
  const lines: CsvRow[] = []
  let cells: string[] = []
  let number = 1
  let begun = 1
  const cell = /(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n]*))(,|\r?\n|\r|$)/y
  cell.lastIndex = text.startsWith('\ufeff') ? 1 : 0
  while (cell.lastIndex < text.length || cells.length > 0) {
    const match = cell.exec(text)
    if (match === null) {
      fault(number, '', 'a quote stands within a cell, or is not closed')
      return lines
    }
    cells.push(match[1]?.replaceAll('""', '"') ?? match[2]!.trim())
    number += match[0].match(/\r\n|\r|\n/g)?.length ?? 0
    if (match[3] === ',') continue
    if (cells.length > 1 || cells[0] !== '') lines.push({ number: begun, cells })
    cells = []
    begun = number
    if (match[3] === '') break
  }
  return lines
}

function checkHeader(columns: readonly string[], fault: FaultListener): void {
  for (const name of needed) {
    if (!columns.includes(name))
      fault(
        1,
        name,
        `the column is missing; the header is ${known.slice(0, 4).join(',')}[,delivered,complaints][,segment]`,
      )
  }
  for (const [index, name] of columns.entries()) {
    if (!known.includes(name)) fault(1, name, `is no known column; there are ${known.join(', ')}`)
    else if (columns.indexOf(name) !== index) fault(1, name, 'the column is there twice')
  }
  if (columns.includes('delivered') !== columns.includes('complaints'))
    fault(1, '', 'delivered and complaints stand together or not at all')
}

function observationOf(
  { number, cells }: CsvRow,
  columns: readonly string[],
  fault: FaultListener,
): Observation {
  const problem = (path: string, message: string): void => fault(number, path, message)
  if (cells.length !== columns.length)
    problem('', `has ${cells.length} cells, and the header ${columns.length}`)
  const cellOf = (name: string): string | undefined => cells[columns.indexOf(name)]
  const frequencyText = cellOf('frequency') ?? ''
  const frequency = /^\d+(?:\.\d+)?$/.test(frequencyText) ? Number(frequencyText) : Number.NaN
  if (!(frequency <= frequencyMax))
    problem('frequency', `expected messages a week, from 0 to ${frequencyMax}, not "${frequencyText}"`)
  const values = Object.fromEntries(
    counts
      .filter((name) => columns.includes(name))
      .map((name) => [name, countOf(name, cellOf(name) ?? '', problem)]),
  ) as unknown as Pick<Observation, (typeof counts)[number]>
  const { people, engaged, churned, delivered, complaints } = values
  if (engaged > people) problem('engaged', `${engaged} of ${people} people`)
  if (churned > people) problem('churned', `${churned} of ${people} people`)
  if (complaints !== undefined && delivered !== undefined && complaints > delivered)
    problem('complaints', `${complaints} about ${delivered} delivered`)
  if (frequency === 0 && engaged > 0) problem('engaged', 'nobody engages with no message: expected 0')
  const segment = cellOf('segment')
  return { frequency, ...values, ...(segment === undefined ? {} : { segment }) }
}

function countOf(name: string, text: string, problem: (path: string, message: string) => void): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isNaN(value)) {
    const hint = /^[\d.]+ ?%?$/.test(text) ? '; counts, not rates' : ''
    problem(name, `expected a whole number, not "${text}"${hint}`)
  }
  return value
}
