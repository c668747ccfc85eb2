import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { it } from 'node:test'
import { temporaryFolder } from '../config/folder.ts'

const bin = join(import.meta.dirname, '../../bin/sluice.js')

it('the sandbox runs until a signal, with the behaviour of its file', async (t) => {
  const folder = temporaryFolder(t, {
    'b.yaml': 'accounts:\n  a: { rates: [{ max: 1, windowMs: 60000 }] }\n',
  })
  const child = spawn(process.execPath, [
    bin,
    'sandbox',
    '--json',
    '--port',
    '0',
    '--smtp-port',
    '0',
    '--behaviour',
    join(folder, 'b.yaml'),
  ])
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const { url } = JSON.parse(line) as { url: string }
  const call = async (): Promise<number> =>
    (await fetch(`${url}/hook/a`, { method: 'POST', headers: { 'webhook-id': 'n' }, body: '{}' })).status
  assert.deepEqual([await call(), await call()], [200, 429])
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'exit'), [0, null])
})

for (const [what, args, expected] of [
  ['a port that is no number', ['--port', 'x'], /--port takes a whole number/],
  ['a file that is not there', ['--behaviour', 'nothing.yaml'], /nothing\.yaml/],
] as const) {
  it(`refuses ${what}`, async () => {
    const child = spawn(process.execPath, [bin, 'sandbox', ...args])
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString()
    })
    assert.deepEqual(await once(child, 'close'), [2, null])
    assert.match(said, expected)
  })
}
