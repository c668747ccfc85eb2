/** `sluice backup`: copies the store and its secret keys, beside the gateway that writes them. */
import { resolve } from 'node:path'
import { type Arguments, type CommandForm, configOption, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { createProgress } from './progress.ts'

export const form: CommandForm = {
  name: 'backup',
  summary: 'Copy the store in one snapshot, also while a gateway runs on it, and check the copy.',
  positionals: ['<file>'],
  options: {
    keys: { value: '<file>', text: 'Where the secret keys go; <file>.keys by default' },
    unchecked: { text: 'Keep the copy without reading its rows' },
    config: configOption,
    json: jsonOption,
  },
  examples: [
    ['sluice backup /backup/sluice-2026-11-22.db', 'The copy, and its keys in sluice-2026-11-22.db.keys'],
    ['sluice backup /backup/sluice.db --keys /vault/sluice.keys', 'The keys apart from the data'],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const [{ loadConfig }, { backUpStore }] = await Promise.all([
    import('../config/load.ts'),
    import('../gateway.ts'),
  ])
  const path = read.text('config')
  const { store } = loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  const [file] = read.positionals
  const to = resolve(io.cwd, file!)
  const keysTo = resolve(io.cwd, read.text('keys') ?? `${to}.keys`)
  const takenAt = Date.now()
  const progress = createProgress(io, 'checked')
  const { bytes, counts, keys } = await backUpStore(store, {
    to,
    keysTo,
    now: takenAt,
    isUnchecked: read.has('unchecked'),
    onProgress: progress.show,
  }).finally(progress.end)
  if (read.has('json')) {
    const at = new Date(takenAt).toISOString()
    io.out(
      JSON.stringify({ store: store.path, file: to, keysFile: keysTo, takenAt: at, bytes, counts, keys }),
    )
    return exitCodes.ok
  }
  const held =
    counts === undefined ? 'its rows were not read' : `${counts.notification ?? 0} notifications, all read`
  io.out(
    [
      `Copied ${store.path} to ${to}: ${bytes} bytes, ${held}.`,
      keys.length === 0
        ? `${keysTo} is empty: the store has no secret keys yet.`
        : `Its secret keys (${keys.join(', ')}) are in ${keysTo}: keep them apart from the copy.`,
    ].join('\n'),
  )
  return exitCodes.ok
}
