import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { nameFleetSettings } from '../../src/config/fleet-settings.ts'
import { loadConfig } from '../../src/config/load.ts'
import { temporaryFolder } from './folder.ts'

test('settings that gateways must share have a name, in which addresses and secrets have no part', (t) => {
  const nameOf = (account: string, more = ''): string => {
    const text = `pools: { email: { provider: smtp, accounts: [${account}] } }\n${more}`
    const cwd = temporaryFolder(t, { 'sluice.yaml': text })
    return nameFleetSettings(loadConfig({ path: join(cwd, 'sluice.yaml'), env: {}, cwd }))
  }
  const main = '{ id: main, url: "smtp://a:25", rate: 10/s }'
  const base = nameOf(main)
  assert.equal(nameOf('{ id: main, url: "smtp://user:secret@b:25", rate: 10/s }'), base)
  assert.equal(nameOf(main, 'http: { port: 9000 }'), base)
  const others = [
    nameOf('{ id: main, url: "smtp://a:25", rate: 11/s }'),
    nameOf('{ id: other, url: "smtp://a:25", rate: 10/s }'),
    nameOf(main, 'tenants: { acme: { rate: 7/min } }'),
    nameOf(main, 'tenants: { default: { queue: 9 } }'),
  ]
  assert.equal(new Set([base, ...others]).size, 5)
})
