import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CommandForm, helpOf, jsonOption, readArguments } from '../../src/cli/command.ts'

const form: CommandForm = {
  name: 'show',
  summary: 'Shows something.',
  positionals: ['<id>', '[more]'],
  options: { json: jsonOption, tenant: { value: '<id>', text: 'On whose behalf' } },
  examples: [['sluice show 1', 'Shows 1']],
}

test('arguments are parsed by the description of the command', () => {
  const args = readArguments(form, ['a', '--tenant', 'shop', '--json'])
  assert.deepEqual(args?.positionals, ['a'])
  assert.equal(args?.text('tenant'), 'shop')
  assert.equal(args?.has('json'), true)
  assert.equal(readArguments(form, ['--tenant=x=y', 'a'])?.text('tenant'), 'x=y')
  assert.deepEqual(readArguments(form, ['--', '--json'])?.positionals, ['--json'])
  assert.equal(readArguments(form, ['a', '--help']), undefined, 'help stands above everything else')
  assert.equal(readArguments(form, ['-h']), undefined)
})

const refused: readonly (readonly [args: readonly string[], message: RegExp])[] = [
  [[], /^<id> is missing\nSee: sluice show --help$/],
  [['a', 'b', 'c'], /^"c" is one argument too many\n/],
  [['a', '--tenat', 'x'], /^unknown option --tenat: did you mean "tenant"\?\n/],
  [['a', '-x'], /^unknown option -x\n/],
  [['a', '--tenant'], /^--tenant needs a value: --tenant <id>\n/],
  [['a', '--tenant='], /^--tenant needs a value/],
  [['a', '--json=yes'], /^--json takes no value\n/],
  [['a', '--tenant', 'x', '--tenant', 'y'], /^--tenant is given twice\n/],
  [['a', '--__proto__'], /^unknown option --__proto__/],
]

for (const [args, message] of refused) {
  test(`bad usage is reported with a way to fix it: ${JSON.stringify(args)}`, () => {
    assert.throws(() => readArguments(form, args), { code: 'BAD_USAGE', message })
  })
}

test('help lists what the command takes, with examples', () => {
  assert.equal(
    helpOf(form),
    `Shows something.

Usage: sluice show <id> [more] [options]

Options:
  --json         Print JSON
  --tenant <id>  On whose behalf
  --help         Show this help

Examples:
  sluice show 1
      Shows 1`,
  )
})
