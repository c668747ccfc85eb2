/** Secret keys on PostgreSQL: every process of a store has the same, whatever stands on its machine. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { secretKeysOf } from '../../../src/composition/secret-keys.ts'
import { createLinks } from '../../../src/composition/templates.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { temporaryFolder } from '../../config/folder.ts'
import { ask, dropSchemas, schemaUrl } from './database.ts'
import { sluice } from './sluice.ts'

const configOf = (cwd: string, store: string) =>
  loadConfig({ cwd, env: { SLUICE_STORE: store, SLUICE_HTTP_PUBLIC_URL: 'https://notify.example.com' } })
const mail = {
  tenant: 'default',
  to: { id: 'ada', email: 'ada@example.com' },
  category: 'news',
  channel: 'email',
} as const

describe('secret keys on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('a link of one process is taken by another, on a machine of its own', async (t) => {
    const url = schemaUrl('links')
    const [here, there] = [configOf(temporaryFolder(t), url), configOf(temporaryFolder(t), url)]
    const [ours, theirs] = await Promise.all([secretKeysOf(here), secretKeysOf(there)])
    const link = createLinks(here, ours).urlFor!(mail)
    const { tenant, category, channel } = mail
    const token = link.slice(link.indexOf('/u/') + 3)
    assert.deepEqual(createLinks(there, theirs).read(token), { tenant, recipient: 'ada', category, channel })
    assert.notDeepEqual(ours('unsubscribe'), ours('log'))
  })

  test('the log names a recipient alike on every machine', () => {
    const url = schemaUrl('hash')
    const names = [1, 2].map(() => sluice(['hash', 'ada'], { SLUICE_STORE: url }).out)
    assert.match(names[0]!, /\w{8}/)
    assert.equal(names[0], names[1])
  })

  test('a key that an older version kept in a file becomes the key of all processes', async (t) => {
    const url = schemaUrl('kept')
    const folder = temporaryFolder(t)
    mkdirSync(join(folder, 'data'))
    writeFileSync(join(folder, 'data', 'unsubscribe.key'), 'the key of the machine\n')
    const own = await secretKeysOf(configOf(folder, url))
    assert.equal(String(own('unsubscribe')), 'the key of the machine')
    const other = temporaryFolder(t)
    mkdirSync(join(other, 'data'))
    writeFileSync(join(other, 'data', 'unsubscribe.key'), 'the key of a later machine\n')
    const keys = await secretKeysOf(configOf(other, url))
    assert.equal(String(keys('unsubscribe')), 'the key of the machine')
    assert.deepEqual(await ask(url, 'SELECT name FROM secret ORDER BY name'), [
      { name: 'log' },
      { name: 'unsubscribe' },
    ])
  })
})
