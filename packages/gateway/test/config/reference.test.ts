import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { CommandForm } from '../../src/cli/command.ts'
import { jsonSchemaText } from '../../src/config/json-schema.ts'
import { commands } from '../../src/main.ts'
import { providerNames } from '../../src/providers/configs.ts'

const read = (page: string): string =>
  readFileSync(fileURLToPath(new URL(`../../../../docs/reference/${page}`, import.meta.url)), 'utf8')

interface Node {
  readonly $ref?: string
  readonly properties?: Readonly<Record<string, Node>>
  readonly patternProperties?: Readonly<Record<string, Node>>
  readonly anyOf?: readonly Node[]
  readonly items?: Node
  readonly definitions?: Readonly<Record<string, Node>>
}

/** Collects the names of all fields in a schema. */
function fieldsOf(schema: Node, root: Node = schema): ReadonlySet<string> {
  const found = new Set<string>()
  const visit = (node: Node): void => {
    if (node.$ref !== undefined) visit(root.definitions![node.$ref.split('/').at(-1)!]!)
    for (const [name, inside] of Object.entries(node.properties ?? {})) {
      found.add(name)
      visit(inside)
    }
    for (const inside of [
      ...Object.values(node.patternProperties ?? {}),
      ...(node.anyOf ?? []),
      ...(node.items === undefined ? [] : [node.items]),
    ])
      visit(inside)
  }
  visit(schema)
  return found
}

/** Joins the pages of the providers, which describe the fields of their accounts. */
function providerPages(): string {
  const folder = fileURLToPath(new URL('../../../../docs/reference/providers/', import.meta.url))
  return readdirSync(folder)
    .map((page) => readFileSync(`${folder}${page}`, 'utf8'))
    .join('\n')
}

for (const [name, page] of [
  ['config', 'configuration.md'],
  ['policy', 'policy.md'],
] as const) {
  test(`every field of the ${name} is in ${page}${name === 'config' ? ' or the page of its provider' : ''}`, () => {
    const text = name === 'config' ? `${read(page)}${providerPages()}` : read(page)
    const fields = fieldsOf(JSON.parse(jsonSchemaText(name)))
    assert.ok(fields.size > 20)
    for (const field of fields) assert.ok(new RegExp(`[\`.]${field}[\`.]`).test(text), field)
  })
}

test('every variable that the configuration reads or refuses is in configuration.md', () => {
  const text = read('configuration.md')
  const source = readFileSync(
    fileURLToPath(new URL('../../src/config/environment.ts', import.meta.url)),
    'utf8',
  )
  const names = new Set(source.match(/\b(SLUICE|NOTIFY)_[A-Z_]+\b/g))
  for (const name of [
    'SLUICE_URL',
    'SLUICE_TOKEN',
    'SLUICE_TOKEN_FILE',
    'SLUICE_SEED',
    'SLUICE_SERVICE_HOST',
    'SLUICE_PORT',
  ])
    names.delete(name)
  assert.ok(names.size > 15)
  for (const name of names) assert.ok(text.includes(`\`${name}\``), name)
})

for (const [name, command] of Object.entries(commands)) {
  test(`every option of sluice ${name} is in command-line.md`, async () => {
    const text = read('command-line.md')
    const { form } = (await command.load()) as unknown as { readonly form: CommandForm }
    assert.ok(text.includes(`\`sluice ${name}`), name)
    for (const option of Object.keys(form.options)) assert.ok(text.includes(`\`--${option}`), option)
  })
}

test('every provider is named in the documents', () => {
  const rows = read('configuration.md').split('\n')
  const choice = rows.find((row) => row.startsWith('| `pools.*.provider` |'))!
  for (const name of providerNames) {
    assert.ok(choice.includes(`\`${name}\``), `configuration.md does not name ${name}`)
    assert.match(read('providers.md'), new RegExp(`^\\| \\[?\`${name}\``, 'm'))
  }
})
