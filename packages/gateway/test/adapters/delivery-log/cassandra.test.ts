/** The suite of every delivery log, on a real Cassandra, and what operators see of it. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, describe, test } from 'node:test'
import cassandra from 'cassandra-driver'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createCassandraLog } from '../../../src/adapters/delivery-log/cassandra.ts'
import { lookAtCassandra } from '../../../src/adapters/delivery-log/cassandra-connection.ts'
import { schemaOf } from '../../../src/adapters/delivery-log/cassandra-schema.ts'
import { readArguments } from '../../../src/cli/command.ts'
import { form, run } from '../../../src/cli/explain.ts'
import { exerciseDeliveryLog } from '../../../src/conformance/delivery-log.ts'
import type { DeliveryLog } from '../../../src/ports/delivery-log.ts'
import { temporaryFolder } from '../../config/folder.ts'
import { certificate } from '../../sinks/certificate.ts'
import { startTlsProxy } from '../../sinks/tls-proxy.ts'
import { startProxy } from '../../store/postgres/proxy.ts'

const keepMs = 90 * 86_400_000

/** Runs `sluice explain` with these arguments; returns its exit code, or the message of its refusal, and its output. */
async function explain(folder: string, ...args: readonly string[]): Promise<readonly [unknown, string]> {
  let out = ''
  const io = {
    env: {},
    cwd: folder,
    colours: false,
    out: (text: string) => {
      out += text
    },
    err: () => {},
  }
  const code = await run(readArguments(form, args)!, io).catch((error: Error) => error.message)
  return [code, out]
}

describe('the delivery log in Cassandra', needs('cassandra'), () => {
  const named = process.env.SLUICE_TEST_CASSANDRA!
  const { username: user, password, host: node } = new URL(`cassandra://${named}`)
  const keyspace = `t_${randomBytes(4).toString('hex')}`
  const written = `cassandra://${named}/${keyspace}`
  const address = {
    nodes: [node],
    user,
    password,
    keyspace,
    shown: `cassandra://${user}@${node}/${keyspace}`,
  }
  const created: (readonly string[])[] = []
  let log: DeliveryLog | undefined
  after(() => log?.close())

  test('a look says which tables are missing, and makes none', async () => {
    for (let twice = 0; twice < 2; twice += 1)
      assert.match(
        await lookAtCassandra({ ...address, dataCentre: 'datacenter1' }),
        new RegExp(`^Cassandra [\\d.]+, 1 nodes, keyspace ${keyspace}: its tables are made at the start$`),
      )
    await assert.rejects(lookAtCassandra({ ...address, nodes: ['127.0.0.1:1'] }), {
      code: 'INVALID_CONFIG',
      message: /does not serve: .*ECONNREFUSED/,
    })
    await assert.rejects(lookAtCassandra({ ...address, dataCentre: 'elsewhere' }), /elsewhere|does not serve/)
  })

  exerciseDeliveryLog('Cassandra', async () => {
    log ??= createCassandraLog({
      address,
      keepMs,
      clock: { now: Date.now },
      onCreated: (statements) => created.push(statements),
    })
    return { log, keepMs, now: Date.now }
  })

  test('the tables were made once, by the statements of the guide', async () => {
    assert.equal(created.length, 1)
    assert.match(await lookAtCassandra(address), /its tables are there$/)
    const guide = readFileSync(
      new URL('../../../../../docs/guides/cassandra.md', import.meta.url),
      'utf8',
    ).replaceAll(/\s+/g, ' ')
    const plain = (statement: string) =>
      statement
        .replace('IF NOT EXISTS ', '')
        .replaceAll(/\s+/g, ' ')
        .replaceAll(/\( | \)/g, (edge) => edge.trim())
    for (const statement of schemaOf('sluice', "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}"))
      assert.ok(
        guide.replaceAll(/\( | \)/g, (edge) => edge.trim()).includes(`${plain(statement)};`),
        statement,
      )
  })

  test('a role needs a login and the rights to read and to write, and none to make tables', async (t) => {
    for (const wrong of [
      { user: undefined, password: undefined },
      { user, password: 'wrong-password' },
    ])
      await assert.rejects(lookAtCassandra({ ...address, ...wrong } as typeof address), (error: Error) => {
        assert.match(
          error.message,
          /does not serve: .*(requires authentication|incorrect|[Cc]redentials).*a user that may log in/,
        )
        assert.doesNotMatch(error.message, /wrong-password/)
        return true
      })
    const admin = new cassandra.Client({
      contactPoints: [node],
      localDataCenter: 'datacenter1',
      credentials: { username: user, password },
    })
    const role = `${keyspace}_gateway`
    await admin.execute(`CREATE ROLE ${role} WITH PASSWORD = 'of the gateway' AND LOGIN = true`)
    const limited = createCassandraLog({
      address: { ...address, user: role, password: 'of the gateway' },
      keepMs,
      clock: { now: Date.now },
    })
    t.after(async () => {
      await limited.close()
      await admin.execute(`DROP ROLE ${role}`)
      await admin.shutdown()
    })
    const record = {
      ...({
        tenant: 'shop',
        recipient: 'user-43',
        notificationId: '01RIGHTS',
        channel: 'email',
        seq: 0,
      } as const),
      events: [{ at: Date.now(), status: 'accepted' as const }],
    }
    await assert.rejects(limited.notification('none'), /no SELECT permission/)
    await admin.execute(`GRANT SELECT ON KEYSPACE ${keyspace} TO ${role}`)
    await assert.rejects(limited.write([record], Date.now()), /no MODIFY permission/)
    await admin.execute(`GRANT MODIFY ON KEYSPACE ${keyspace} TO ${role}`)
    await limited.write([record], Date.now())
    assert.equal((await limited.notification('01RIGHTS'))?.recipient, 'user-43')
  })

  test('a log whose node is frozen ends all the same', async (t) => {
    const proxy = await startProxy(`cassandra://${node}`)
    t.after(proxy.close)
    const nodes = [new URL(proxy.url).host]
    const frozen = createCassandraLog({ address: { ...address, nodes }, keepMs, clock: { now: Date.now } })
    proxy.freeze()
    const connecting = assert.rejects(frozen.notification('none'))
    const begunAt = performance.now()
    await frozen.close()
    assert.ok(performance.now() - begunAt < 4_500)
    await assert.rejects(frozen.write([], 0), /closed/)
    proxy.cutAll()
    await connecting
  })

  test('with TLS only a certificate that holds is spoken to', async (t) => {
    const secure = await startTlsProxy(node)
    t.after(secure.close)
    const nodes = [secure.node]
    const trusting = { ...address, nodes, tls: { ca: certificate } }
    assert.match(await lookAtCassandra(trusting), /its tables are there$/)
    assert.ok(secure.secured() > 0)
    await assert.rejects(lookAtCassandra({ ...address, nodes, tls: {} }), {
      code: 'INVALID_CONFIG',
      message: /does not serve: .*self-signed certificate/,
    })
    const secured = createCassandraLog({ address: trusting, keepMs, clock: { now: Date.now } })
    t.after(() => secured.close())
    assert.deepEqual(await secured.notification('none'), undefined)
  })

  test('sluice explain --log shows what is logged of a notification, and says where there is nothing', async (t) => {
    const folder = temporaryFolder(t, { 'sluice.yaml': `deliveryLog: ${written}` })
    const now = Date.now()
    await log!.write(
      [
        {
          ...{ tenant: 'shop', recipient: 'user-42', notificationId: '01LOGGED', channel: 'email', seq: 0 },
          events: [
            { at: now, status: 'accepted' },
            {
              at: now,
              status: 'dead',
              reason: 'attempts_exhausted',
              provider: 'smtp',
              account: 'main',
              attempt: 3,
            },
          ],
        },
      ],
      now,
    )
    const [code, text] = await explain(folder, '01LOGGED', '--log')
    assert.equal(code, 0, text)
    assert.match(text, /^01LOGGED {2}tenant shop · to user-42\n/)
    assert.match(text, /accepted[\s\S]+dead +attempts_exhausted +smtp\/main +attempt 3/)
    const [, json] = await explain(folder, '01LOGGED', '--log', '--json')
    const { entries, ...named } = JSON.parse(json) as { entries: readonly { readonly at: string }[] }
    assert.deepEqual(named, { notificationId: '01LOGGED', tenant: 'shop', recipient: 'user-42' })
    assert.deepEqual(entries[0], {
      seq: 0,
      at: new Date(now).toISOString(),
      status: 'accepted',
      channel: 'email',
    })
    assert.deepEqual(await explain(folder, '01NOTHING', '--log'), [
      'The delivery log has nothing of 01NOTHING.',
      '',
    ])
    const [without] = await explain(temporaryFolder(t), '01LOGGED', '--log')
    assert.match(String(without), /^There is no delivery log/)
    const [usage] = await explain(folder, '01LOGGED', '--log', '--wait')
    assert.match(String(usage), /--wait asks the gateway/)
  })
})
