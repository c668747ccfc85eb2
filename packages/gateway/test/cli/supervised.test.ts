/** The supervisors that the documents give start a gateway again until the engines are there, however long that takes. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'

const textOf = (path: string): string => readFileSync(new URL(`../../../../${path}`, import.meta.url), 'utf8')

test('systemd never gives a gateway up whose PostgreSQL comes later', () => {
  const [unit, service] = textOf('docs/operate/production.md')
    .split('```ini')[1]!
    .split('```')[0]!
    .split('[Service]')
  assert.match(unit!, /^StartLimitIntervalSec=0$/m)
  assert.match(service!, /^Restart=on-failure$/m)
  assert.match(service!, /^RestartSec=[1-5]$/m)
  // A refusal to start has the exit code 2, an engine that is away as well.
  assert.doesNotMatch(service!, /RestartPreventExitStatus/)
})

test('the gateways for Docker are started again', () => {
  const { services } = parse(textOf('compose.yaml'), { merge: true })
  for (const name of ['gateway-1', 'gateway-2']) assert.equal(services[name].restart, 'on-failure', name)
})
