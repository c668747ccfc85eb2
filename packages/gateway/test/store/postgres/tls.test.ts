/** TLS to a real server: its certificate is of an authority of the test, and each sslmode asks for what it says. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import pg from 'pg'
import { needs } from '../../../../../scripts/services/needs.ts'
import { startPostgres } from '../../../../../scripts/services/postgres.ts'
import type { Service } from '../../../../../scripts/services/service.ts'
import { lookAt } from '../../../src/store/postgres/look.ts'
import { createSite } from '../../child.ts'
import { temporaryFolder } from '../../config/folder.ts'
import { addressOf } from './database.ts'
import { sluice } from './sluice.ts'

/** Runs openssl in a folder. */
function openssl(folder: string, args: string): void {
  const { status, stderr } = spawnSync('openssl', args.split(' '), { cwd: folder, encoding: 'utf8' })
  assert.equal(status, 0, stderr)
}

/** Makes an authority, and a certificate for the name `localhost` that it signed. */
function makeCertificates(folder: string): void {
  const key = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'
  openssl(folder, `req -x509 ${key} -subj /CN=authority -keyout ca.key -out ca.pem`)
  openssl(folder, `req -x509 ${key} -subj /CN=other -keyout other.key -out other.pem`)
  openssl(folder, `req ${key} -subj /CN=localhost -keyout server.key -out server.csr`)
  writeFileSync(join(folder, 'names'), 'subjectAltName=DNS:localhost\n')
  openssl(
    folder,
    'x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem',
  )
}

describe('TLS to PostgreSQL', needs('postgres'), () => {
  let folder = ''
  let server: Service | undefined
  const cleanups: (() => void)[] = []

  before(async () => {
    folder = temporaryFolder({
      after: (run: () => void) => void cleanups.push(run),
    } as unknown as TestContext)
    makeCertificates(folder)
    const read = (name: string) => readFileSync(join(folder, name), 'utf8')
    server = await startPostgres({ tls: { certificate: read('server.pem'), key: read('server.key') } })
  })
  after(async () => {
    await server?.stop()
    for (const run of cleanups) run()
  })

  /** The address with this host and these options. */
  function at(host: string, options: Readonly<Record<string, string>>): string {
    const url = new URL(server!.url)
    url.hostname = host
    for (const [name, value] of Object.entries(options)) url.searchParams.set(name, value)
    return url.href
  }
  const file = (name: string): string => join(folder, name)

  test('each sslmode asks for what it says', () => {
    for (const [host, options] of [
      ['127.0.0.1', { sslmode: 'require' }],
      ['127.0.0.1', { sslmode: 'verify-ca', sslrootcert: file('ca.pem') }],
      ['localhost', { sslmode: 'verify-full', sslrootcert: file('ca.pem') }],
    ] as const) {
      const { status, out, err } = sluice(['check'], { SLUICE_STORE: at(host, options) })
      assert.equal(status, 0, `${options.sslmode}: ${err}`)
      assert.match(out, /# Store: PostgreSQL \d+\S*.*, TLS; the schema/)
    }
  })

  test('a certificate that does not hold is refused, with the way out', () => {
    for (const [host, options, says] of [
      ['localhost', { sslmode: 'verify-full', sslrootcert: file('other.pem') }, /sslrootcert/],
      ['localhost', { sslmode: 'verify-full' }, /sslrootcert/],
      ['127.0.0.1', { sslmode: 'verify-ca', sslrootcert: file('other.pem') }, /sslrootcert/],
      ['127.0.0.1', { sslmode: 'verify-full', sslrootcert: file('ca.pem') }, /another host.+verify-ca/],
    ] as const) {
      for (const command of ['check', 'serve']) {
        const env = { SLUICE_STORE: at(host, options), SLUICE_HTTP_PORT: '0' }
        const { status, err } = sluice([command], env)
        assert.equal(status, 2, `${command} ${options.sslmode}: ${err}`)
        assert.match(err, /The certificate of PostgreSQL at /)
        assert.match(err, says)
      }
    }
    const missing = sluice(['check'], {
      SLUICE_STORE: at('localhost', { sslmode: 'verify-full', sslrootcert: file('nowhere.pem') }),
    })
    assert.equal(missing.status, 2)
    assert.match(missing.err, /nowhere\.pem/)
  })

  test('a server that wants TLS or a password is refused without it, with the way out', async () => {
    const rules = join(server!.folder, 'data', 'pg_hba.conf')
    const before = readFileSync(rules, 'utf8')
    const admin = new pg.Client({ connectionString: server!.url })
    await admin.connect()
    try {
      await admin.query(`CREATE ROLE wants_tls LOGIN; CREATE ROLE wants_password LOGIN PASSWORD 'hunter2';
        GRANT CREATE ON DATABASE postgres TO wants_password`)
      const lines = [
        'hostnossl all wants_tls 127.0.0.1/32 reject',
        'host all wants_password 127.0.0.1/32 scram-sha-256',
      ]
      writeFileSync(rules, `${lines.join('\n')}\n${before}`)
      await admin.query('SELECT pg_reload_conf()')
      const as = (user: string): string => at('127.0.0.1', {}).replace('postgres@', `${user}@`)
      for (const [user, message] of [
        [
          'wants_tls',
          /refuses the user "wants_tls" .+ Where the server wants TLS, add \?sslmode=verify-full\./,
        ],
        ['wants_password', /wants a password of the user "wants_password", and "store" has none\./],
      ] as const)
        await assert.rejects(lookAt(addressOf(as(user))), { code: 'INVALID_CONFIG', message })
      process.env.PGPASSWORD = 'hunter2'
      assert.match(await lookAt(addressOf(as('wants_password'))), /^PostgreSQL/)
    } finally {
      delete process.env.PGPASSWORD
      writeFileSync(rules, before)
      await admin.end()
    }
  })

  test('a gateway serves over TLS', async (t) => {
    const store = at('localhost', { sslmode: 'verify-full', sslrootcert: file('ca.pem') })
    const site = await createSite(t, { config: { store } })
    await site.start()
    const answer = await site.call('POST', '/api/v1/notifications', {
      recipient: { id: 'ada', email: 'ada@example.com' },
      channel: 'email',
      content: { subject: 'Hello', text: 'Hello' },
    })
    assert.equal(answer.status, 202, answer.text)
    assert.equal((await site.terminate()).code, 0)
  })
})
