/** Bytes are parsed to JSON, and harmful input is refused in every notation. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SluiceError } from '../../src/errors.ts'
import { isDeeperThan, parseJson } from '../../src/http/json.ts'

const seed = Number(process.env.SLUICE_SEED ?? 1)
console.log(`SLUICE_SEED=${seed}`)

function refusal(text: string): SluiceError {
  try {
    parseJson(Buffer.from(text))
  } catch (error) {
    assert.ok(error instanceof SluiceError)
    return error
  }
  assert.fail(`${text} was taken`)
}

/** The reference: every text and every key is checked. */
function isHarmful(value: unknown): boolean {
  if (typeof value === 'string') return value.includes('\0') || !value.isWellFormed()
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(
    ([key, inside]) => key === '__proto__' || key === 'constructor' || isHarmful(key) || isHarmful(inside),
  )
}

/** A text as JSON: plain, or with one or all of its units escaped, in lower or upper case. */
const spelt = fc
  .array(
    fc.record({
      piece: fc.constantFrom(
        'a',
        '\0',
        '\ud83d',
        '\udca9',
        '💩',
        'é',
        '\\',
        'u0000',
        '__proto__',
        'constructor',
        '"',
        '\n',
      ),
      escaped: fc.oneof(fc.constantFrom('none', 'all'), fc.nat(10)),
      upper: fc.boolean(),
    }),
    { maxLength: 2 },
  )
  .map((pieces) => {
    const written = pieces.map(({ piece, escaped, upper }) => {
      if (escaped === 'none') return JSON.stringify(piece).slice(1, -1)
      const units = Array.from({ length: piece.length }, (_, index) => {
        if (escaped !== 'all' && escaped !== index) return JSON.stringify(piece[index]).slice(1, -1)
        const hex = piece.charCodeAt(index).toString(16).padStart(4, '0')
        return `\\u${upper ? hex.toUpperCase() : hex}`
      })
      return units.join('')
    })
    return `"${written.join('')}"`
  })

const { tree } = fc.letrec<{ tree: string; list: string; object: string }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    spelt,
    fc.constantFrom('1', 'null', 'true'),
    tie('list'),
    tie('object'),
  ),
  list: fc.array(tie('tree'), { maxLength: 3 }).map((items) => `[${items.join()}]`),
  object: fc
    .array(fc.tuple(spelt, tie('tree')), { maxLength: 3 })
    .map((entries) => `{${entries.map((entry) => entry.join(':')).join()}}`),
}))

test('exactly the harmful inputs are refused', () => {
  let harmful = 0
  fc.assert(
    fc.property(tree, (text) => {
      const value: unknown = JSON.parse(text)
      if (isHarmful(value)) {
        harmful += 1
        assert.equal(refusal(text).code, 'INVALID_REQUEST')
      } else assert.deepEqual(parseJson(Buffer.from(text)), value)
    }),
    { seed, numRuns: 20_000 },
  )
  assert.ok(harmful > 2_000 && harmful < 18_000, `${harmful} of 20,000 were harmful`)
})

test('a refusal names the place as a JSON Pointer', () => {
  const paths = (text: string) => refusal(text).errors?.map(({ path }) => path)
  assert.deepEqual(paths('"\\u0000"'), [''])
  assert.deepEqual(paths('{"a/b":[1,{"c~d":"\\u0000"}]}'), ['/a~1b/1/c~0d'])
  assert.deepEqual(paths('{"a":{"__proto__":{"constructor":1}}}'), ['/a/__proto__'])
  assert.deepEqual(paths('{"\\u0000":1}'), ['/\\u0000'])
})

test('a number beyond the range of a double is refused in every notation, and every other one is taken', () => {
  for (const number of ['1e309', '-1E+400', '1.5e0999', '9'.repeat(310), `${'9'.repeat(310)}.5`]) {
    const { code, errors } = refusal(`{"a":[${number}]}`)
    assert.deepEqual(
      [code, errors],
      ['INVALID_REQUEST', [{ path: '/a/0', message: 'is a number beyond ±1.8e308' }]],
    )
  }
  const text = `[1.7e308, 1e-400, 2e0010, "1e999", "${'9'.repeat(310)}", ${'9'.repeat(308)}]`
  assert.deepEqual(parseJson(Buffer.from(text)), JSON.parse(text))
})

test('a syntax error names its position, and does not repeat the input', () => {
  const { code, message } = refusal('{"secret": s3cret}')
  assert.equal(code, 'INVALID_JSON')
  assert.equal(message.includes('s3cret'), false)
  assert.equal(refusal('{"a":1,}').message, 'The body is not valid JSON at position 7.')
  assert.equal(refusal('').message, 'The body is empty.')
  assert.equal(refusal('{').message, 'The body is not valid JSON at position 1.')
  assert.equal(refusal('[1').message, 'The body is not valid JSON at position 2.')
})

test('depth is counted from the value itself', () => {
  for (const [value, levels] of [
    [1, 0],
    ['text', 0],
    [null, 0],
    [{}, 1],
    [[], 1],
    [{ a: 1, b: [1, { c: [] }] }, 4],
  ] as const) {
    assert.equal(isDeeperThan(value, levels), false)
    if (levels > 0) assert.equal(isDeeperThan(value, levels - 1), true)
  }
})
