/** `sluice restore`: puts a backup where the store will be. */
import { resolve } from 'node:path'
import { type Arguments, badUsage, type CommandForm, configOption, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { instant } from './text.ts'
import { untilOption } from './until-option.ts'

export const form: CommandForm = {
  name: 'restore',
  summary: 'Put a backup where the store of the configuration will be, into an empty folder.',
  positionals: ['<file>'],
  options: {
    keys: { value: '<file>', text: 'Where the secret keys are; <file>.keys by default' },
    'without-keys': { text: 'Go on without them' },
    'hold-until': {
      value: '<when>',
      text: 'Nothing leaves until then: a span such as 2h, a time of day, or an RFC 3339 instant',
    },
    config: configOption,
    json: jsonOption,
  },
  examples: [
    ['sluice restore /backup/sluice-2026-11-22.db', 'Then start the gateway'],
    [
      'sluice restore /backup/sluice-2026-11-22.db --hold-until 2h',
      'Time to cancel what was sent since; "sluice hold restored --end" lets the rest leave',
    ],
  ],
}

const holdMsMax = 31 * 86_400_000

export async function run(read: Arguments, io: Io): Promise<number> {
  const now = Date.now()
  const until = untilOption(form, read, 'hold-until', now)
  if (until !== undefined && (until <= now || until > now + holdMsMax))
    throw badUsage(form, '--hold-until must lie ahead, by 31 days at most')
  if (read.has('keys') && read.has('without-keys'))
    throw badUsage(form, 'it is either --keys or --without-keys')
  const [{ loadConfig }, { restoreStore }] = await Promise.all([
    import('../config/load.ts'),
    import('../gateway.ts'),
  ])
  const path = read.text('config')
  const { store } = loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  const [file] = read.positionals
  const from = resolve(io.cwd, file!)
  const keysFrom = read.has('without-keys') ? undefined : resolve(io.cwd, read.text('keys') ?? `${from}.keys`)
  const hold =
    until === undefined
      ? undefined
      : { name: 'restored', since: now, until, reason: 'A backup was restored.' }
  const { takenAt, notifications, keys } = await restoreStore(store, { from, keysFrom, hold })
  const at = takenAt === undefined ? null : new Date(takenAt).toISOString()
  if (read.has('json')) {
    const heldUntil = until === undefined ? null : new Date(until).toISOString()
    io.out(JSON.stringify({ store: store.path, from, takenAt: at, notifications, keys, heldUntil }))
    return exitCodes.ok
  }
  io.out(
    [
      `Restored ${notifications} notifications to ${store.path}${at === null ? '' : `, as they were at ${instant(at)}`}.`,
      'What was accepted later is not in it, and what waited then and was sent since will be sent again.',
      ...(until === undefined
        ? []
        : [
            `Nothing leaves until ${instant(new Date(until).toISOString())}; "sluice hold restored --end" ends that.`,
          ]),
    ].join('\n'),
  )
  return exitCodes.ok
}
