/** The public surface is compared by names and by what users rely on. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compare, type Documents, namesOf } from '../surface/names.ts'

const field = (type: string, more: object = {}) => ({
  type: 'object',
  properties: { port: { type, ...more } },
})

const documents = (changes: Partial<Documents> = {}): Documents => ({
  openApi: {
    paths: {
      '/send': {
        post: {
          operationId: 'send',
          parameters: [{ name: 'dry', in: 'query', schema: { type: 'boolean' } }],
          requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Body' } } } },
          responses: { 202: { $ref: '#/components/responses/Accepted' } },
        },
      },
    },
    components: {
      schemas: { Body: field('integer') },
      responses: { Accepted: { content: { 'application/json': { schema: field('string') } } } },
    },
  },
  asyncApi: { channels: { room: {} }, operations: {} },
  metrics: '# TYPE sent_total counter\nsent_total{channel="email"} 1\n',
  config: field('integer', { maximum: 65_535 }),
  policy: {},
  help: new Map([['serve', 'Options:\n  --config <file>\n']]),
  library: { limit: (name: string) => name },
  ...changes,
})

const differences = (changes: Partial<Documents>): readonly string[] =>
  compare(namesOf(documents()), namesOf(documents(changes))).map(
    ({ part, sign, name }) => `${sign} ${part} ${name}`,
  )

test('two checkouts with the same surface have no difference', () => {
  assert.deepEqual(differences({}), [])
})

test('a field that is gone, a label, a narrower bound, an option and an export are each named', () => {
  assert.deepEqual(differences({ openApi: { paths: {} } }), [
    '- http POST /send',
    '- http POST /send 202',
    '- http POST /send 202 answer',
    '- http POST /send 202 answer.port',
    '- http POST /send body',
    '- http POST /send body.port',
    '- http POST /send query dry',
  ])
  assert.deepEqual(differences({ metrics: '# TYPE sent_total counter\nsent_total 1\n' }), [
    '~ metric sent_total',
  ])
  assert.deepEqual(differences({ config: field('integer', { maximum: 1_024 }) }), ['~ config port'])
  assert.deepEqual(
    differences({ config: { ...field('integer', { maximum: 65_535 }), required: ['port'] } }),
    ['- config port', '+ config port!'],
  )
  assert.deepEqual(differences({ help: new Map([['serve', '']]) }), ['- command serve --config'])
  assert.deepEqual(differences({ library: {} }), ['- library limit'])
})
