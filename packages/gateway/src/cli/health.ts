/** `sluice health`: says if the gateway lives and is ready to accept; exit code 1 where it is not, for scripts and probes. */
import { createClient } from './client.ts'
import { type Arguments, type CommandForm, gatewayOptions } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { plain } from './text.ts'

export const form: CommandForm = {
  name: 'health',
  summary: 'Is the gateway alive, and ready to accept? Exit code 1 where it is not.',
  options: gatewayOptions,
  examples: [['sluice health', 'For a script, or the health check of a container']],
}

interface Ready {
  readonly status?: string | number
  readonly detail?: string
  readonly degraded?: readonly string[]
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const client = createClient(read, io)
  const { status, body } = await client.probe<Ready>('/readyz')
  const isReady = status === 200
  const { degraded = [], detail } = body
  // A sentence of each has its full stop, which the list does not want.
  const faults = degraded.map((fault) => fault.replace(/\.$/, '')).join('; ')
  if (read.has('json')) io.out(JSON.stringify({ ready: isReady, url: client.url, degraded }))
  else if (isReady) {
    const without = faults === '' ? '' : `; not working: ${faults}`
    io.out(plain(`The gateway at ${client.url} is ready${without}.`))
  } else {
    const why = faults || (detail ?? `HTTP ${status}`).replace(/\.$/, '')
    io.err(plain(`sluice: the gateway at ${client.url} is not ready: ${why}.`))
  }
  return isReady ? exitCodes.ok : exitCodes.failure
}
