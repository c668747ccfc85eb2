/** Generators of invalid documents and texts for property tests: one place is changed at random. */
import fc from 'fast-check'

type Path = readonly (string | number)[]

/** Lists every place in a document, itself included. */
function placesOf(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path]
  const inside = Array.isArray(value)
    ? value.flatMap((entry, index) => placesOf(entry, [...path, index]))
    : Object.entries(value).flatMap(([key, entry]) => placesOf(entry, [...path, key]))
  return [path, ...inside]
}

function withChange(value: unknown, path: Path, change: (at: unknown) => unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined) return change(value)
  if (Array.isArray(value))
    return value.map((entry, index) => (index === step ? withChange(entry, rest, change) : entry))
  return Object.fromEntries(
    Object.entries(value as object).map(([key, entry]) => [
      key,
      key === step ? withChange(entry, rest, change) : entry,
    ]),
  )
}

const words = [
  '',
  'any',
  'otherwise',
  'unlimited',
  '0/day',
  '2/day',
  '2/day, 5/week',
  '1h',
  '31d',
  '32d',
  '22:00',
  '24:00',
  'email',
  'smtp',
  'drop',
  'digest:x',
  'fallback:sms',
  '5%',
  '1MiB',
  'default',
  'memory',
]

const anything = fc.oneof(
  fc.constantFrom<unknown>(...words),
  fc.constantFrom<unknown>(0, 1, -1, 1.5, 80, 1e21, true, false),
  fc.string({ maxLength: 12 }),
  fc.constantFrom<unknown>(
    [],
    {},
    [[]],
    ['2/day'],
    [1],
    { from: '22:00', to: '08:00' },
    { provider: 'smtp' },
    { channel: 'sms' },
  ),
)

/** The document with one value replaced, one entry removed, or one key added. */
export function changedDocument(document: unknown): fc.Arbitrary<unknown> {
  return fc
    .record({
      path: fc.constantFrom(...placesOf(document)),
      value: anything,
      key: fc.constantFrom('name', 'for', 'id', 'rate', 'extra', 'max'),
      how: fc.constantFrom('replace', 'remove', 'add'),
    })
    .map(({ path, value, key, how }) => {
      if (how === 'replace' || path.length === 0) return withChange(document, path, () => value)
      if (how === 'add')
        return withChange(document, path, (at) =>
          typeof at === 'object' && !Array.isArray(at) ? { ...at, [key]: value } : at,
        )
      return withChange(document, path.slice(0, -1), (at) =>
        Array.isArray(at)
          ? at.filter((_, index) => index !== path.at(-1))
          : Object.fromEntries(Object.entries(at as object).filter(([name]) => name !== path.at(-1))),
      )
    })
}

/** The text with a few characters or lines removed, doubled, moved or replaced. */
export function changedText(text: string): fc.Arbitrary<string> {
  const edit = fc.record({
    at: fc.nat({ max: text.length }),
    length: fc.nat({ max: 20 }),
    put: fc.oneof(
      fc.constantFrom(
        ':',
        ' ',
        '\n',
        '\t',
        '{',
        '}',
        '[',
        ']',
        '&a ',
        '*a',
        '!!int ',
        '"',
        "'",
        '- ',
        '? ',
        '|',
        '>',
        '%',
        '---\n',
        '...\n',
        '\u0000',
        '\ud800',
        '__proto__: ',
        '.inf',
        '0x1F',
        '1e400',
        '<<: ',
      ),
      fc.string({ maxLength: 6, unit: 'binary' }),
      fc.constant(text.slice(0, 40)),
    ),
  })
  return fc
    .array(edit, { minLength: 1, maxLength: 4 })
    .map((edits) =>
      edits.reduce((now, { at, length, put }) => now.slice(0, at) + put + now.slice(at + length), text),
    )
}

/** Fixed, so that a failure can be repeated; another one by SLUICE_SEED. */
export const seed = Number(process.env.SLUICE_SEED ?? 20_261_121)
