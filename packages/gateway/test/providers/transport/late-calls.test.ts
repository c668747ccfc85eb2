/** Calls that come too late while their connection is opened, on real sockets: nothing is sent, and the connection stays. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, connect, createServer, type LookupFunction, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { someMessage } from '../../../src/conformance/provider.ts'
import {
  createHttpCaller,
  type HttpAnswer,
  type NoAnswer,
} from '../../../src/providers/transport/http-call.ts'
import { certificate, certificateKey } from '../../sinks/certificate.ts'
import { connected } from '../smtp-rig.ts'

/** A provider behind a relay, which holds new connections after they were accepted, until it is told to let them pass. */
async function behindRelay(t: TestContext, { isSecure, deadlineMs = 10_000 }: Rig) {
  const bodies: string[] = []
  const onRequest: Parameters<typeof createHttpServer>[1] = (request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      bodies.push(body)
      response.end('taken')
    })
  }
  const server = isSecure
    ? createHttpsServer({ cert: certificate, key: certificateKey }, onRequest)
    : createHttpServer(onRequest)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const held: Socket[] = []
  const near: Socket[] = []
  const arrivals: (() => void)[] = []
  const relay = createServer((socket) => {
    near.push(socket)
    held.push(socket)
    socket.on('error', () => {})
    for (const arrived of arrivals.splice(0)) arrived()
  })
  relay.listen(0, '127.0.0.1')
  await once(relay, 'listening')
  const looked = Promise.withResolvers<() => void>()
  const lookup: LookupFunction = (_, options, answer) => {
    looked.resolve(() => {
      if (options.all === true) answer(null, [{ address: '127.0.0.1', family: 4 }])
      else answer(null, '127.0.0.1', 4)
    })
  }
  const caller = createHttpCaller({
    deadlineMs,
    idleMax: 4,
    idleMs: 60_000,
    ...(isSecure ? { egress: { authorities: [certificate] } } : { lookup }),
  })
  t.after(() => {
    caller.close()
    for (const socket of near) socket.destroy()
    relay.close()
    server.close()
    server.closeAllConnections()
  })
  const { port } = relay.address() as AddressInfo
  const pass = (): void => {
    for (const socket of held.splice(0)) {
      const far = connect((server.address() as AddressInfo).port, '127.0.0.1')
      far.on('error', () => {})
      socket.pipe(far).pipe(socket)
    }
  }
  return {
    bodies,
    near,
    pass,
    /** Resolves the name that is looked up. */
    resolveName: async () => (await looked.promise)(),
    accepted: () =>
      held.length > 0 ? undefined : new Promise<void>((resolve) => void arrivals.push(resolve)),
    call: (body: string, onWritten: () => boolean): Promise<HttpAnswer | NoAnswer> =>
      caller.call({
        url: new URL(`${isSecure ? 'https' : 'http'}://localhost:${port}/`),
        headers: {},
        body,
        signal: new AbortController().signal,
        onWritten,
      }),
  }
}

interface Rig {
  readonly isSecure: boolean
  readonly deadlineMs?: number
}

for (const isSecure of [false, true]) {
  const what = isSecure ? 'its TLS handshake was held up' : 'its name was resolved'
  test(`a call that came too late while ${what} is not sent, and leaves its connection to the next`, async (t) => {
    const rig = await behindRelay(t, { isSecure })
    let asked = 0
    let isLate = false
    const ending = rig.call('late', () => {
      asked += 1
      return !isLate
    })
    if (isSecure) await rig.accepted()
    isLate = true
    if (!isSecure) await rig.resolveName()
    await rig.accepted()
    rig.pass()
    const answer = await ending
    assert.ok(!answer.answered)
    assert.deepEqual([answer.sent, answer.late, asked], [false, false, 1])
    const next = await rig.call('in time', () => true)
    assert.equal(next.answered && next.text, 'taken')
    assert.deepEqual(rig.bodies, ['in time'])
    assert.equal(rig.near.length, 1, 'connections')
  })
}

test('a call whose connection is not open by its deadline ends, and the connection is given up', async (t) => {
  const rig = await behindRelay(t, { isSecure: true, deadlineMs: 300 })
  let asked = 0
  const answer = await rig.call('never', () => {
    asked += 1
    return true
  })
  assert.ok(!answer.answered)
  assert.deepEqual([answer.sent, answer.late, asked], [false, true, 0])
  const [socket] = rig.near
  if (socket !== undefined && !socket.readableEnded) {
    socket.resume()
    await once(socket, 'close')
  }
})

test('a mail that comes too late for its envelope leaves the connection to the next', async (t) => {
  const { sink, provider, account, send } = await connected(t, { account: { connections: 1 } })
  const asked: (string | undefined)[] = []
  const { signal } = new AbortController()
  const late = await provider.send(someMessage('email'), account, signal, (part) => {
    asked.push(part)
    return false
  })
  assert.deepEqual(late, { outcome: 'failed', detail: 'it came too late to be sent' })
  assert.equal((await send()).outcome, 'delivered')
  assert.deepEqual(asked, ['envelope'])
  assert.equal(sink.commands.filter((line) => line.startsWith('MAIL')).length, 1)
  assert.deepEqual([sink.mails.length, sink.connections.opened], [1, 1])
})

test('a mail that comes too late for the server’s answer to DATA is not sent', async (t) => {
  const { sink, provider, account, send } = await connected(t, { account: { connections: 1 } })
  const { signal } = new AbortController()
  const late = await provider.send(someMessage('email'), account, signal, (part) => part === 'envelope')
  assert.deepEqual(late, { outcome: 'failed', detail: 'it came too late to be sent' })
  assert.equal((await send()).outcome, 'delivered')
  assert.equal(sink.mails.length, 1)
})
