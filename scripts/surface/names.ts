/** Names of the public surface out of the documents that publish it, each with the meaning that users rely on. Pure. */

type Json = Readonly<Record<string, unknown>>

export interface Documents {
  readonly openApi: Json
  readonly asyncApi: Json
  /** The text of /metrics. */
  readonly metrics: string
  readonly config: Json
  readonly policy: Json
  /** The text that `--help` of each command prints. */
  readonly help: ReadonlyMap<string, string>
  /** The library as a module. */
  readonly library: object
}

/** A name, such as `http.port`, to its meaning in a few words, such as `integer`. */
export type Surface = ReadonlyMap<string, ReadonlyMap<string, string>>

export interface Difference {
  readonly part: string
  readonly sign: '+' | '-' | '~'
  readonly name: string
  readonly detail?: string
}

/** Keywords of a schema that say which values are valid. */
const meaning = [
  'type',
  'enum',
  'const',
  'format',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'maxItems',
]

/** The fields of a JSON schema, by path, with their types and bounds. References are followed within the document. */
function fieldsOf(
  schema: unknown,
  document: Json,
  path: string,
  found: Map<string, string>,
  seen: readonly unknown[] = [],
): void {
  if (typeof schema !== 'object' || schema === null || seen.includes(schema)) return
  const { $ref, properties, required, items, ...rest } = schema as Json
  const inside = [...seen, schema]
  if (typeof $ref === 'string') {
    const target = $ref
      .split('/')
      .slice(1)
      .reduce<unknown>((at, key) => (at as Json | undefined)?.[key], document)
    fieldsOf(target, document, path, found, inside)
    return
  }
  const words = meaning.filter((key) => key in rest).map((key) => `${key} ${JSON.stringify(rest[key])}`)
  if (path !== '') found.set(path, words.join(', '))
  for (const [name, field] of Object.entries((properties ?? {}) as Json)) {
    const mark = Array.isArray(required) && required.includes(name) ? '!' : ''
    fieldsOf(field, document, `${path === '' ? '' : `${path}.`}${name}${mark}`, found, inside)
  }
  if (items !== undefined) fieldsOf(items, document, `${path}[]`, found, inside)
  for (const key of ['anyOf', 'oneOf', 'allOf'])
    for (const [index, member] of ((rest[key] as readonly unknown[] | undefined) ?? []).entries())
      fieldsOf(member, document, `${path}|${index}`, found, inside)
  for (const key of ['additionalProperties', 'patternProperties'])
    if (typeof rest[key] === 'object') fieldsOf(rest[key], document, `${path}.*`, found, inside)
}

/** Routes with their parameters and bodies, and the status codes of their answers with their fields. */
function routesOf(document: Json): Map<string, string> {
  const found = new Map<string, string>()
  for (const [path, methods] of Object.entries(document.paths as Record<string, Json>))
    for (const [method, given] of Object.entries(methods)) {
      if (!/^(get|post|put|patch|delete)$/.test(method)) continue
      const route = `${method.toUpperCase()} ${path}`
      const { operationId, parameters, requestBody, responses } = given as Json
      found.set(route, String(operationId))
      for (const { name, in: where, schema } of (parameters ?? []) as readonly Json[])
        fieldsOf(schema, document, `${route} ${String(where)} ${String(name)}`, found)
      fieldsOf(jsonOf(requestBody, document), document, `${route} body`, found)
      for (const [status, answer] of Object.entries((responses ?? {}) as Json)) {
        found.set(`${route} ${status}`, '')
        fieldsOf(jsonOf(answer, document), document, `${route} ${status} answer`, found)
      }
    }
  return found
}

/** The JSON schema of a body or an answer; undefined where it has none. */
function jsonOf(given: unknown, document: Json): unknown {
  const { $ref, content } = (given ?? {}) as Json
  if (typeof $ref === 'string') {
    const [, , kind, name] = $ref.split('/')
    return jsonOf((document.components as Record<string, Json>)[kind!]?.[name!], document)
  }
  return Object.entries((content ?? {}) as Record<string, Json>).find(([type]) => type.includes('json'))?.[1]
    .schema
}

function metricsOf(text: string): Map<string, string> {
  const labels = new Map<string, Set<string>>()
  for (const [, name, given] of text.matchAll(/^([a-z_]+)(?:\{([^}]*)\})? /gm)) {
    const of = labels.get(name!) ?? new Set()
    labels.set(name!, of)
    for (const [, label] of (given ?? '').matchAll(/([a-z_]+)="/g)) of.add(label!)
  }
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)/gm)].map(([, name, type]) => [name!, type!]))
  return new Map(
    [...types].map(([name, type]) => {
      const series = [name, `${name}_bucket`, `${name}_sum`].flatMap((each) => [...(labels.get(each) ?? [])])
      return [name, `${type}{${[...new Set(series)].sort().join(', ')}}`]
    }),
  )
}

function optionsOf(help: ReadonlyMap<string, string>): Map<string, string> {
  const found = new Map<string, string>()
  for (const [command, text] of help) {
    found.set(command, '')
    for (const [option] of text.matchAll(/--[a-z][a-z-]+/g)) found.set(`${command} ${option}`, '')
  }
  return found
}

export function namesOf({ openApi, asyncApi, metrics, config, policy, help, library }: Documents): Surface {
  const schema = (document: Json): Map<string, string> => {
    const found = new Map<string, string>()
    fieldsOf(document, document, '', found)
    return found
  }
  const channels = Object.keys({ ...(asyncApi.channels as Json), ...(asyncApi.operations as Json) })
  return new Map([
    ['http', routesOf(openApi)],
    ['websocket', new Map(channels.map((name) => [name, '']))],
    ['config', schema(config)],
    ['policy', schema(policy)],
    ['metric', metricsOf(metrics)],
    ['command', optionsOf(help)],
    [
      'library',
      new Map(
        Object.entries(library).map(([name, value]) => [
          name,
          typeof value === 'function' ? `function of ${value.length}` : typeof value,
        ]),
      ),
    ],
  ])
}

/** Lists the names that are added, gone or changed from one surface to another, by part and name. */
export function compare(before: Surface, now: Surface): readonly Difference[] {
  const differences: Difference[] = []
  for (const part of new Set([...before.keys(), ...now.keys()])) {
    const [old, fresh] = [before.get(part) ?? new Map(), now.get(part) ?? new Map()]
    for (const name of [...new Set<string>([...old.keys(), ...fresh.keys()])].sort()) {
      const [was, is] = [old.get(name), fresh.get(name)]
      if (was === undefined) differences.push({ part, sign: '+', name })
      else if (is === undefined) differences.push({ part, sign: '-', name })
      else if (was !== is) differences.push({ part, sign: '~', name, detail: `${was} → ${is}` })
    }
  }
  return differences
}
