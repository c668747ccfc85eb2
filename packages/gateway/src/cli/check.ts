/**
 * `sluice check`: validates configuration, policy and templates, and prints what is in force with every default
 * filled in. Where store, state, queue, intake or delivery log is a server, it connects and says what it found. A configuration that it accepts is never
 * refused by `serve`.
 */
import { SluiceError } from '../errors.ts'
import { type Arguments, type CommandForm, configOption, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { paint } from './text.ts'

export const form: CommandForm = {
  name: 'check',
  summary: 'Validate configuration, policy and templates, and print what is in force.',
  options: { config: configOption, json: jsonOption },
  examples: [
    ['sluice check', 'The configuration of this folder and its variables'],
    ['sluice check --config /etc/sluice/sluice.yaml --json', 'Another one, for a program'],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const [
    { loadConfig },
    { configText, describeConfig, policyText },
    { loadTemplates, lookAtDeliveryLog, lookAtIntake, lookAtQueue, lookAtState, lookAtStore },
  ] = await Promise.all([
    import('../config/load.ts'),
    import('../config/describe.ts'),
    import('../gateway.ts'),
  ])
  const path = read.text('config')
  try {
    const config = loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
    loadTemplates(config)
    const store = await lookAtStore(config.store)
    const state = await lookAtState(config, Date.now)
    const queue = await lookAtQueue(config.queue)
    const deliveryLog = await lookAtDeliveryLog(config.deliveryLog)
    const intake = await lookAtIntake(config.intake)
    const { compiled, file, builtIn } = config.policy
    if (read.has('json')) {
      const policy = { file, builtIn, version: compiled.version, document: compiled.document }
      io.out(
        JSON.stringify(
          {
            valid: true,
            file: config.file ?? null,
            config: describeConfig(config),
            policy,
            ...(store === undefined ? {} : { store }),
            ...(state === undefined ? {} : { state }),
            ...(queue === undefined ? {} : { queue }),
            ...(deliveryLog === undefined ? {} : { deliveryLog }),
            ...(intake.length === 0 ? {} : { intake }),
          },
          null,
          2,
        ),
      )
      return exitCodes.ok
    }
    io.out(
      [
        paint(io, 'dim', `# Configuration: ${config.file ?? 'no file, the defaults hold'}`),
        configText(config),
        '',
        paint(io, 'dim', `# Policy ${compiled.version}: ${builtIn ? 'the built-in one' : file}`),
        policyText(compiled.document),
        '',
        ...(store === undefined ? [] : [paint(io, 'dim', `# Store: ${store}`), '']),
        ...(state === undefined ? [] : [paint(io, 'dim', `# State: ${state}`), '']),
        ...(queue === undefined ? [] : [paint(io, 'dim', `# Queue: ${queue}`), '']),
        ...(deliveryLog === undefined ? [] : [paint(io, 'dim', `# Delivery log: ${deliveryLog}`), '']),
        ...intake.flatMap((each) => [paint(io, 'dim', `# Intake: ${each}`), '']),
        paint(io, 'green', 'Configuration and policy are valid.'),
      ].join('\n'),
    )
    return exitCodes.ok
  } catch (error) {
    if (!read.has('json') || !(error instanceof SluiceError)) throw error
    const errors = error.errors ?? [{ path: '', message: error.message }]
    io.out(JSON.stringify({ valid: false, code: error.code, errors }, null, 2))
    return exitCodes.usage
  }
}
