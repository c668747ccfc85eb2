/** The published AsyncAPI document: the served copy, and its references. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv } from 'ajv'
import { clientMessages, serverMessages } from '../../../src/http/websocket/messages.ts'
import { startSockets } from './client.ts'

const sockets = await startSockets()
interface Ref {
  readonly $ref: string
}
interface Document {
  readonly asyncapi: string
  readonly info: { readonly title: string; readonly version: string }
  readonly channels: Readonly<
    Record<string, { readonly address: string; readonly messages: Readonly<Record<string, Ref>> }>
  >
  readonly operations: Readonly<
    Record<string, { readonly action: string; readonly channel: Ref; readonly messages: readonly Ref[] }>
  >
  readonly components: {
    readonly messages: Readonly<Record<string, { readonly payload: Ref }>>
    readonly schemas: Readonly<Record<string, object>>
  }
}
const response = await fetch(`${sockets.stub.url}/asyncapi.json`)
const text = await response.text()
const document = JSON.parse(text) as Document

function find(ref: string): unknown {
  const keys = ref.replace('#/', '').split('/')
  return keys.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], document)
}

test('the document is AsyncAPI 3.1 and public', () => {
  assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8')
  assert.equal(document.asyncapi, '3.1.0')
  assert.ok(document.info.title && document.info.version)
  assert.equal(document.channels.socket!.address, '/ws')
})

test('every reference resolves, and every part is used', () => {
  const refs = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1]!)
  for (const ref of refs) assert.notEqual(find(ref), undefined, ref)
  for (const [part, named] of Object.entries({
    messages: document.components.messages,
    schemas: document.components.schemas,
  }))
    for (const name of Object.keys(named)) assert.ok(refs.includes(`#/components/${part}/${name}`), name)
})

test('the gateway receives the messages of clients and sends the others', () => {
  const { hear, say } = document.operations
  const names = (refs: readonly Ref[]): readonly string[] => refs.map(({ $ref }) => $ref.split('/').at(-1)!)
  assert.deepEqual([hear!.action, names(hear!.messages)], ['receive', Object.keys(clientMessages)])
  assert.deepEqual([say!.action, names(say!.messages)], ['send', Object.keys(serverMessages)])
})

test('its schemas accept the examples of the contract and refuse misspelt ones', () => {
  const ajv = new Ajv()
  const fits = (name: string, message: object): boolean =>
    ajv.validate(document.components.schemas[name]!, message)
  assert.ok(fits('subscribe', { type: 'subscribe', channel: 'orders' }))
  assert.ok(fits('publish', { type: 'publish', channel: 'orders', data: null }))
  assert.ok(fits('message', { type: 'message', channel: 'orders', data: [1] }))
  const message = 'Message throttled. Retry in 1s.'
  assert.ok(fits('warning', { type: 'warning', code: 'WS_RATE_LIMITED', message }))
  assert.equal(fits('subscribe', { type: 'subscribe', chanel: 'orders' }), false)
  assert.equal(fits('error', { type: 'error', code: 'NOT_FOUND', message }), false)
})
