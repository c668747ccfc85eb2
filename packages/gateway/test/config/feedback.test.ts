/** `feedback` of an account: mistakes are refused, and what is in force is shown without secrets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeConfig } from '../../src/config/describe.ts'
import { loadConfig } from '../../src/config/load.ts'
import { temporaryFolder } from './folder.ts'
import { type Refusal, testRefusals } from './refusal.ts'

const refusals: readonly Refusal[] = [
  {
    name: 'one account id under two providers of a channel',
    yaml: 'pools:\n  sms:\n    - { provider: sandbox, accounts: [{ id: a }] }\n    - { provider: webhook, accounts: [{ id: a, url: "http://h" }] }',
    says: ['sluice.yaml:4: pools.sms[1].accounts: "a" is the id of an account of the pool before'],
  },
  {
    name: 'webhooks without what authenticates them',
    yaml: [
      'pools:',
      '  email:',
      '    provider: sandbox',
      '    accounts:',
      '      - { id: a, feedback: { form: ses } }',
      '      - { id: b, feedback: { form: sendgrid, publicKey: AAAA } }',
      '      - { id: c, feedback: { form: mailgun, user: x } }',
      '      - { id: d, feedback: { form: postmark, password: x } }',
      '      - { id: e, feedback: { form: twilio, authToken: x } }',
      '      - { id: f, feedback: { form: ses, topics: [arn:aws:sns:eu-west-1:123456789012:t], certificateFile: none.pem } }',
    ].join('\n'),
    says: [
      'sluice.yaml:1: http.publicUrl: is missing; Twilio signs it (feedback of email/e)',
      'sluice.yaml:5: pools.email.accounts[0].feedback.topics: is missing',
      'sluice.yaml:6: pools.email.accounts[1].feedback.publicKey: expected a public key of P-256, in base64 (SPKI, DER)',
      'sluice.yaml:7: pools.email.accounts[2].feedback.user: is no field of the form mailgun; expected signingKey, signingKeyFile',
      'sluice.yaml:7: pools.email.accounts[2].feedback.signingKey: is missing',
      'sluice.yaml:8: pools.email.accounts[3].feedback.user: is missing',
      'sluice.yaml:10: pools.email.accounts[5].feedback.certificateFile: names a file that cannot be read (there is none)',
    ],
  },
]

testRefusals(refusals)

test('an account is told how its provider calls back, and `check` shows neither that nor a secret', (t) => {
  const sid = `AC${'0'.repeat(32)}`
  const yaml = `
http: { publicUrl: https://notify.example.com }
pools:
  sms:
    provider: twilio
    accounts: [{ id: texts, sid: ${sid}, from: "+15550100200", secret: canary, feedback: { form: twilio } }]
`
  const config = loadConfig({ env: {}, cwd: temporaryFolder(t, { 'sluice.yaml': yaml }) })
  const { account, feedback } = config.pools[0]!.accounts[0]!
  assert.equal(account.options.statusCallback, 'https://notify.example.com/api/v1/feedback/sms/texts')
  assert.deepEqual(feedback, { form: 'twilio', authToken: 'canary' })
  const shown = JSON.stringify(describeConfig(config))
  assert.ok(shown.includes('"feedback":{"form":"twilio","authToken":"(secret)"}'), shown)
  assert.doesNotMatch(shown, /canary|statusCallback/)
})
