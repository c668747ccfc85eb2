/**
 * `sluice export`: writes the recorded traffic of a period to standard output, a line a request, for `sluice replay`. It
 * reads the store of the configuration beside the gateways that write it.
 */
import { randomBytes } from 'node:crypto'
import { type Arguments, badUsage, type CommandForm, configOption, jsonOption } from './command.ts'
import { instantOption } from './instant-option.ts'
import { exitCodes, type Io } from './io.ts'

export const form: CommandForm = {
  name: 'export',
  summary: 'Write recorded traffic, without addresses and contents, for sluice replay.',
  options: {
    from: { value: '<instant>', text: 'Accepted at this instant or later; seven days ago by default' },
    to: { value: '<instant>', text: 'Accepted before this instant; now by default' },
    tenant: { value: '<id>', text: 'Of this tenant only' },
    category: {
      value: '<category>',
      text: 'Of this category only: limits over several ones then see only it',
    },
    sample: { value: '<share>', text: 'The traffic of a share of the people, such as 10%' },
    plain: { text: 'Write the true ids of tenants, people, actors and notifications, not pseudonyms' },
    config: configOption,
    json: { ...jsonOption, text: 'It is JSON anyway, a line a request' },
  },
  examples: [
    ['sluice export --from 2026-11-15 --to 2026-11-22 > traffic.ndjson', 'A week'],
    ['sluice export --sample 10% --tenant acme > traffic.ndjson', 'A tenth of the people of a tenant'],
  ],
}

const weekMs = 7 * 86_400_000
const keyBytes = 32

export async function run(read: Arguments, io: Io): Promise<number> {
  const now = Date.now()
  const to = instantOption(form, read, 'to') ?? now
  const from = instantOption(form, read, 'from') ?? to - weekMs
  if (from >= to) throw badUsage(form, '--from must lie before --to')
  const sample = sampleOf(read.text('sample'))
  const [{ loadConfig }, { selfAddressed }, { openTraffic }, { recordTraffic }] = await Promise.all([
    import('../config/load.ts'),
    import('../config/pools.ts'),
    import('../gateway.ts'),
    import('../replay/record.ts'),
  ])
  const path = read.text('config')
  const [tenant, category] = [read.text('tenant'), read.text('category')]
  const config = loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  const source = await openTraffic(config.store)
  try {
    const pages = recordTraffic({
      source,
      from,
      to,
      now,
      sample,
      ...(tenant === undefined ? {} : { tenant }),
      ...(category === undefined ? {} : { category }),
      ...(read.has('plain') ? {} : { key: randomBytes(keyBytes) }),
      sampleKey: randomBytes(keyBytes),
      policy: config.policy.compiled,
      selfAddressed: selfAddressed(config.pools),
    })
    let requests = 0
    for await (const page of pages) {
      io.out(page.map((line) => JSON.stringify(line)).join('\n'))
      requests += page.filter((line) => 'id' in line && line.warmUp !== true && line.isDigest !== true).length
      // A slow reader of the output holds up the reading, so that nothing collects in between.
      await io.drained?.()
    }
    io.err(`${requests.toLocaleString('en')} requests from ${shown(from)} to ${shown(to)}`)
    return exitCodes.ok
  } finally {
    await source.close()
  }
}

const shown = (instant: number): string => `${new Date(instant).toISOString().slice(0, 16)}Z`

/** Reads a share: `10%` or `0.1`. */
function sampleOf(text = '100%'): number {
  const match = /^(\d{1,3}(?:\.\d{1,6})?)(%?)$/.exec(text)
  const share = match === null ? Number.NaN : Number(match[1]) / (match[2] === '%' ? 100 : 1)
  if (!(share > 0 && share <= 1))
    throw badUsage(form, `--sample expects a share of the people such as 10%, not "${text}"`)
  return share
}
