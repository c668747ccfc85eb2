/**
 * `sluice hash`: prints how the log names a recipient, so that the lines of one recipient can be found. Lines hold a
 * keyed hash in place of the id; its key stands beside the store, or on its server.
 */
import { type Arguments, type CommandForm, configOption, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'

export const form: CommandForm = {
  name: 'hash',
  summary: 'How the log names a recipient.',
  positionals: ['<recipient>'],
  options: {
    tenant: { value: '<id>', text: 'The tenant of the recipient; default by default' },
    config: configOption,
    json: jsonOption,
  },
  examples: [['grep $(sluice hash user-42) sluice.log', 'The lines about one recipient']],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const recipient = read.positionals[0]!
  const [{ loadConfig }, { hashRecipient }] = await Promise.all([
    import('../config/load.ts'),
    import('../gateway.ts'),
  ])
  const path = read.text('config')
  const loaded = loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  const hash = await hashRecipient(loaded, read.text('tenant') ?? 'default', recipient)
  io.out(read.has('json') ? JSON.stringify({ recipient, hash }) : hash)
  return exitCodes.ok
}
