/**
 * `sluice migrate`: completes the schema of a store on a server, as the user who owns it. A gateway that runs as another
 * user needs no right to define anything: this command grants it the rights to run.
 */
import { type Arguments, type CommandForm, configOption, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'

export const form: CommandForm = {
  name: 'migrate',
  summary: 'Complete the schema of a store on a server, as its owner.',
  options: {
    grant: { value: '<role>', text: 'Give this role the rights to run a gateway, now and after later steps' },
    'dry-run': { text: 'Show the steps and statements, and change nothing' },
    config: configOption,
    json: jsonOption,
  },
  examples: [
    ['sluice migrate --dry-run', 'The steps that the schema lacks'],
    [
      'SLUICE_STORE=postgres://owner@db/sluice sluice migrate --grant gateway',
      'As the owner of the schema; gateways run as the role "gateway"',
    ],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const [{ loadConfig }, { migrateStore }] = await Promise.all([
    import('../config/load.ts'),
    import('../gateway.ts'),
  ])
  const path = read.text('config')
  const { store } = loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  const isDryRun = read.has('dry-run')
  const work = await migrateStore(store, { isDryRun, role: read.text('grant') })
  if (read.has('json')) {
    io.out(JSON.stringify({ store: store.path, dryRun: isDryRun, ...work }))
    return exitCodes.ok
  }
  if (work === undefined) {
    io.out(`The store ${store.path} is a file: each start completes it, and there is nothing to do here.`)
    return exitCodes.ok
  }
  const { server, schema, applied, known, grants, owner } = work
  io.out(
    [
      `${server}, schema "${schema}", ${known - (isDryRun ? applied.length : 0)} of ${known} steps`,
      ...applied.map((name) => `${isDryRun ? 'to do' : 'done'}: ${name}`),
      ...grants.map((statement) => `${isDryRun ? 'to do' : 'done'}: ${statement};`),
      ...(owner === undefined ? [] : [`The role "${owner}" owns the schema, and has every right.`]),
      ...(isDryRun
        ? ['Nothing was changed.']
        : applied.length === 0 && grants.length === 0
          ? ['The schema is up to date.']
          : []),
    ].join('\n'),
  )
  return exitCodes.ok
}
