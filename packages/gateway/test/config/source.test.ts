import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig } from '../../src/config/load.ts'
import { temporaryFolder } from './folder.ts'
import { signingKey } from './signing-key.ts'

test('secrets are read from files, relative to the file that names them', (t) => {
  const cwd = temporaryFolder(t, {
    'conf/sluice.yaml': `
unsubscribe: { secretFile: ./unsubscribe.txt }
pools:
  email:
    provider: smtp
    accounts:
      - id: a
        urlFile: secrets/smtp
        dkim: { domainName: example.com, keySelector: s1, privateKeyFile: secrets/dkim.pem }
  sms: { provider: webhook, accounts: [{ id: b, url: "https://sms.example.com/x", secretFile: secrets/hook }] }
`,
    'conf/unsubscribe.txt': 'sixteen-characters-and-more\n',
    'conf/secrets/smtp': 'smtps://user:pass@mail.example.com\n',
    'conf/secrets/dkim.pem': signingKey,
    'conf/secrets/hook': 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    'from-variable': 'another-secret-of-some-length',
  })
  const config = loadConfig({ path: 'conf/sluice.yaml', env: {}, cwd })
  assert.equal(config.unsubscribe.secret, 'sixteen-characters-and-more')
  const [email, sms] = config.pools
  assert.equal(email?.accounts[0]?.account.url, 'smtps://user:pass@mail.example.com')
  assert.deepEqual(email?.accounts[0]?.account.options.dkim, {
    domainName: 'example.com',
    keySelector: 's1',
    privateKey: signingKey.trim(),
  })
  assert.equal(sms?.accounts[0]?.account.secret, 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
  const other = loadConfig({ env: { SLUICE_UNSUBSCRIBE_SECRET_FILE: 'from-variable' }, cwd })
  assert.equal(other.unsubscribe.secret, 'another-secret-of-some-length')
})
