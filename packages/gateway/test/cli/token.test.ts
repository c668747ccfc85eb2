import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway.ts'
import { temporaryFolder } from '../config/folder.ts'
import { createSigner } from '../tokens.ts'
import { sluice } from './session.ts'

const auth = `
auth:
  jwt: { secretFile: secret, issuer: https://issuer.example, audience: sluice }
  claims: { tenant: org.id }
`
const files = {
  'sluice.yaml': `http: { port: 0 }\nstore: "sqlite::memory:"\nlog: { level: silent }\n${auth}`,
  secret: 'x'.repeat(32),
}

async function gateway(t: TestContext): Promise<{ readonly cwd: string; readonly url: string }> {
  const cwd = temporaryFolder(t, files)
  const running = await createGateway(loadConfig({ cwd, env: {} }))
  const { url } = await running.start()
  t.after(() => running.stop())
  return { cwd, url }
}

test('a token of the command line is accepted by the gateway of the same configuration', async (t) => {
  const { cwd, url } = await gateway(t)
  const { out: operator, code } = await sluice(['token', '--scope', 'sluice:admin'], { cwd })
  assert.equal(code, 0)
  const pools = await sluice(['pools', '--url', url, '--token', operator], { cwd })
  assert.equal(pools.code, 0, pools.err)
  const { out: plain } = await sluice(['token', '--tenant', 'acme', '--module', 'shop', '--sub', 'user-42'], {
    cwd,
  })
  const env = { SLUICE_TOKEN: plain, SLUICE_URL: url }
  const refused = await sluice(['pools'], { cwd, env })
  assert.equal(refused.code, 1)
  assert.match(refused.err, /FORBIDDEN: This route needs the scope sluice:admin/)
  assert.match(refused.err, /"sluice token --scope sluice:admin"/)
  writeFileSync(join(cwd, 'token'), `${plain}\n`)
  const recipient = await sluice(['recipient', 'user-42', '--json'], {
    cwd,
    env: { SLUICE_TOKEN_FILE: 'token', SLUICE_URL: url },
  })
  assert.equal(recipient.code, 0, recipient.err)
  const without = await sluice(['recipient', 'user-42', '--url', url], { cwd })
  assert.equal(without.code, 1)
  assert.match(without.err, /UNAUTHENTICATED: .*\nGive a token by SLUICE_TOKEN or --token/)
})

test('a token of the command line expires as requested', async (t) => {
  const cwd = temporaryFolder(t, files)
  const { out } = await sluice(['token', '--expires', '2min', '--json', '--tenant', 'acme'], { cwd })
  const { token, expiresAt } = JSON.parse(out) as { token: string; expiresAt: string }
  const claims = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())
  assert.equal(claims.exp - claims.iat, 120)
  assert.equal(Date.parse(expiresAt), claims.exp * 1_000)
  assert.deepEqual([claims['org.id'], claims['module.id'], claims.scope], ['acme', 'default', undefined])
  for (const expires of ['0s', 'soon', '500ms']) {
    const { code, err } = await sluice(['token', '--expires', expires], { cwd })
    assert.equal(code, 2)
    assert.match(err, /--expires ".*" is no duration/)
  }
})

test('sluice token refuses a configuration without a secret', async (t) => {
  const none = await sluice(['token'], { cwd: temporaryFolder(t) })
  assert.deepEqual(
    [none.code, none.err],
    [1, 'sluice: the configuration names no keys, so no token is needed'],
  )
  const cwd = temporaryFolder(t, {
    'sluice.yaml': auth.replace('secretFile: secret', 'publicKeyFile: k.pem'),
    'k.pem': createSigner('EdDSA').publicKey,
  })
  assert.match((await sluice(['token'], { cwd })).err, /only the issuer can sign/)
})
