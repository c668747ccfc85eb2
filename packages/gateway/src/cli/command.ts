/**
 * Describes a command: its name, arguments, options and examples. The same description parses the arguments,
 * refuses an unknown option with a suggestion, and writes the help.
 */
import { parseArgs } from 'node:util'
import { didYouMean } from '../config/suggestion.ts'
import { SluiceError } from '../errors.ts'

export interface OptionForm {
  /** The placeholder of the value in the help, such as `<file>`; absent for a switch. */
  readonly value?: string
  readonly text: string
}

export interface CommandForm {
  readonly name: string
  /** One line for the list of commands. */
  readonly summary: string
  /** Such as `<notificationId>`; an optional one stands in brackets. */
  readonly positionals?: readonly string[]
  readonly options: Readonly<Record<string, OptionForm>>
  readonly examples: readonly (readonly [command: string, what: string])[]
  /** Options that users expect here, each with the place where the same is said. */
  readonly elsewhere?: Readonly<Record<string, string>>
}

export interface Arguments {
  readonly positionals: readonly string[]
  text(option: string): string | undefined
  has(option: string): boolean
}

const helpOption: OptionForm = { text: 'Show this help' }

export const jsonOption: OptionForm = { text: 'Print JSON' }
export const configOption: OptionForm = {
  value: '<file>',
  text: 'The configuration; else SLUICE_CONFIG, else ./sluice.yaml where there is one',
}

/** The options of every command that queries a running gateway. */
export const gatewayOptions = {
  url: { value: '<url>', text: 'The gateway; else SLUICE_URL, else host and port of the configuration' },
  tenant: { value: '<id>', text: 'On whose behalf; with keys the token says that' },
  token: { value: '<jwt>', text: 'Sent as bearer token; else SLUICE_TOKEN, or the file SLUICE_TOKEN_FILE' },
  config: configOption,
  json: jsonOption,
} as const satisfies Record<string, OptionForm>

/**
 * Parses the arguments by their description. Undefined where help was requested.
 *
 * @throws SluiceError `BAD_USAGE`
 */
export function readArguments(form: CommandForm, args: readonly string[]): Arguments | undefined {
  const options: Readonly<Record<string, OptionForm>> = { ...form.options, help: helpOption }
  const parsed = parseArgs({
    args: [...args],
    strict: false,
    tokens: true,
    allowPositionals: true,
    options: {
      ...Object.fromEntries(
        Object.entries(options).map(([name, { value }]) => [
          name,
          { type: value === undefined ? 'boolean' : 'string' } as const,
        ]),
      ),
      help: { type: 'boolean', short: 'h' },
    },
  })
  const values = new Map<string, string | true>()
  for (const token of parsed.tokens) {
    if (token.kind !== 'option') continue
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    const elsewhere = form.elsewhere?.[token.name]
    if (option === undefined && elsewhere !== undefined)
      throw badUsage(form, `${token.rawName} is no option: ${elsewhere}`)
    if (option === undefined)
      throw badUsage(form, `unknown option ${token.rawName}${didYouMean(token.name, Object.keys(options))}`)
    if (option.value === undefined && token.value !== undefined)
      throw badUsage(form, `${token.rawName} takes no value`)
    if (option.value !== undefined && (token.value === undefined || token.value === '')) {
      throw badUsage(form, `${token.rawName} needs a value: ${token.rawName} ${option.value}`)
    }
    if (values.has(token.name) && option.value !== undefined)
      throw badUsage(form, `${token.rawName} is given twice`)
    values.set(token.name, token.value ?? true)
  }
  if (values.has('help')) return undefined
  checkPositionals(form, parsed.positionals)
  return {
    positionals: parsed.positionals,
    has: (option) => values.has(option),
    text: (option) => {
      const value = values.get(option)
      return value === true ? undefined : value
    },
  }
}

function checkPositionals(form: CommandForm, given: readonly string[]): void {
  const known = form.positionals ?? []
  const needed = known.filter((name) => !name.startsWith('['))
  if (given.length < needed.length) throw badUsage(form, `${needed[given.length]} is missing`)
  if (given.length > known.length) throw badUsage(form, `"${given[known.length]}" is one argument too many`)
}

/**
 * The value of an option that takes one of a few words; undefined where it is not given.
 *
 * @throws SluiceError `BAD_USAGE`
 */
export function oneOfOption<Word extends string>(
  form: CommandForm,
  args: Arguments,
  option: string,
  words: readonly Word[],
): Word | undefined {
  const value = args.text(option)
  if (value === undefined || (words as readonly string[]).includes(value)) return value as Word | undefined
  throw badUsage(form, `--${option} expects one of ${words.join(', ')}${didYouMean(value, words)}`)
}

export function badUsage(form: Pick<CommandForm, 'name'>, message: string): SluiceError {
  return new SluiceError('BAD_USAGE', `${message}\nSee: sluice ${form.name} --help`)
}

export function helpOf(form: CommandForm): string {
  const synopsis = ['sluice', form.name, ...(form.positionals ?? []), '[options]'].join(' ')
  const options = Object.entries({ ...form.options, help: helpOption }).map(
    ([name, { value, text }]) => [`--${name}${value === undefined ? '' : ` ${value}`}`, text] as const,
  )
  return [
    form.summary,
    '',
    `Usage: ${synopsis}`,
    '',
    'Options:',
    ...columns(options),
    '',
    'Examples:',
    ...form.examples.flatMap(([command, what]) => [`  ${command}`, `      ${what}`]),
  ].join('\n')
}

/** Formats two columns, the second aligned. */
export function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([first]) => first.length))
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}`)
}
