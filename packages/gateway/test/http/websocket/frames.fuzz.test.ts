/**
 * Seeded frames of every kind, valid and invalid, over real sockets: a connection answers valid ones or closes
 * with a code, other connections are not affected, and nothing leaks.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { seeded, testSeed } from '../../harness.ts'
import { handshake, openRaw, said, startSockets, until } from './client.ts'

const chance = seeded(testSeed)
const below = (count: number): number => Math.floor(chance() * count)
const oneOf = <T>(items: readonly T[]): T => items[below(items.length)]!

function someText(): string {
  return oneOf([
    '{"type":"ping"}',
    '{"type":"subscribe","channel":"a"}',
    '{"type":"unsubscribe","channel":"a"}',
    '{"type":"publish","channel":"a","data":{"n":[1,2,{"x":null}]}}',
    `{"type":"publish","channel":"a","data":"${'x'.repeat(below(70_000))}"}`,
    `${'['.repeat(below(5_000))}`,
    '{"type":"subscribe","channel":"__proto__"}',
    '{"__proto__":{"type":"ping"}}',
    '\u0000\uffff',
    '',
    'x'.repeat(below(300)),
  ])
}

function someFrame(): Buffer {
  const payload =
    chance() < 0.8
      ? Buffer.from(someText())
      : Buffer.from(Array.from({ length: below(200) }, () => below(256)))
  const opcode = chance() < 0.7 ? 1 : below(16)
  const first = (chance() < 0.85 ? 0x80 : 0) | (chance() < 0.95 ? 0 : below(8) << 4) | opcode
  const isMasked = chance() < 0.97
  const mask = [below(256), below(256), below(256), below(256)]
  const body = isMasked ? payload.map((byte, index) => byte ^ mask[index % 4]!) : payload
  const declared = chance() < 0.97 ? payload.length : below(2 ** 31)
  const bit = isMasked ? 0x80 : 0
  const head =
    declared < 126
      ? [first, bit | declared]
      : declared < 65_536
        ? [first, bit | 126, declared >> 8, declared & 0xff]
        : [
            first,
            bit | 127,
            0,
            0,
            0,
            0,
            declared >>> 24,
            (declared >> 16) & 0xff,
            (declared >> 8) & 0xff,
            declared & 0xff,
          ]
  const frame = Buffer.concat([Buffer.from([...head, ...(isMasked ? mask : [])]), body])
  return chance() < 0.05 ? frame.subarray(0, below(frame.length)) : frame
}

test(`any frames leave the gateway and the other connections intact (SLUICE_SEED=${testSeed})`, async () => {
  const sockets = await startSockets({ rate: 'unlimited', heartbeatMs: 1_000 })
  const other = await sockets.open({ tenant: 'acme' })
  await other.subscribe('a')
  for (let run = 0; run < 120; run += 1) {
    const { socket, text } = await openRaw(sockets.stub.url, `${handshake}\r\n\r\n`)
    await until(() => text().includes('\r\n\r\n'))
    for (let n = below(12); n >= 0 && socket.writable; n -= 1) {
      const frame = someFrame()
      const cut = below(frame.length + 1)
      socket.write(frame.subarray(0, cut))
      if (chance() < 0.3) await new Promise(setImmediate)
      socket.write(frame.subarray(cut))
    }
    // Half of them stay open, and are found by the heartbeat or are alive.
    if (chance() < 0.5) socket.destroy()
    if (run % 10 === 0) {
      const data = { run }
      assert.deepEqual(said(await other.ask({ type: 'publish', channel: 'a', data })), {
        type: 'message',
        channel: 'a',
        data,
      })
    }
  }
  await until(() => sockets.hub.report().connections === 1, 20_000)
  assert.equal(sockets.hub.room('default').subscribers('a'), undefined)
  assert.deepEqual(sockets.stub.logged, [])
  other.socket.close()
  await once(other.socket, 'close')
})
