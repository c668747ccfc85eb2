import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readPostgresAddress } from '../../src/config/postgres-address.ts'

const read = (text: string) => readPostgresAddress(text, (path) => `text of ${path}`)

test('reads the parts of an address, and shows it without its password', () => {
  const { shown, ...address } = read('postgresql://ad%40a:s%2Fecret@db.internal:6432/notify?schema=blue')
  assert.deepEqual(address, {
    host: 'db.internal',
    port: 6_432,
    user: 'ad@a',
    password: 's/ecret',
    database: 'notify',
    schema: 'blue',
    ssl: false,
  })
  assert.equal(shown, 'postgresql://ad%40a@db.internal:6432/notify?schema=blue')
})

test('has the defaults of PostgreSQL, and takes an IPv6 address', () => {
  const { host, port, user, password, schema } = read('postgres://[::1]/notify')
  assert.deepEqual([host, port, user, password, schema], ['::1', 5_432, 'postgres', undefined, 'sluice'])
})

test('verifies the server as sslmode says, by the given authority', () => {
  const ssl = (query: string) => read(`postgres://h/d?${query}`).ssl
  assert.deepEqual(ssl('sslmode=disable'), false)
  assert.deepEqual(ssl('sslmode=require'), { rejectUnauthorized: false })
  assert.deepEqual(ssl('sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem'), {
    ca: 'text of /ca.pem',
    cert: 'text of /c.pem',
    key: 'text of /k.pem',
    rejectUnauthorized: true,
  })
  const ca = ssl('sslmode=verify-ca')
  assert.ok(ca !== false && ca.rejectUnauthorized && ca.checkServerIdentity?.() === undefined)
})

test('wants one host, as a fail-over behind a name or a proxy has it', () => {
  for (const hosts of ['one,two', 'one:5432,two:5432'])
    assert.throws(() => read(`postgres://u:p@${hosts}/notify`), {
      message: /^expected one host: that of the primary/,
    })
  assert.equal(read('postgres://u:p,q@one/notify').password, 'p,q')
})

test('says how a character of a password is written that ends the address early, and shows none of it', () => {
  for (const password of ['hunter/2', '12/hunter', 'hunter#2', 'hunter?2'])
    assert.throws(
      () => read(`postgres://u:${password}@db/notify`),
      ({ message }: Error) =>
        /within a user or a password @ is written %40, \/ %2F/.test(message) && !message.includes('hunter'),
    )
})

test('says how a % in the user or the password is written', () => {
  for (const login of ['100%', 'ada:100%'])
    assert.throws(() => read(`postgres://${login}@db/notify`), { message: /every % is written %25/ })
})
