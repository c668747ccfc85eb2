/** The observations of `sluice advise --from-record`: what was delivered and reported back, from the store of the configuration. */
import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Observation } from '../advice/observations.ts'
import { channels } from '../model.ts'
import { type Arguments, badUsage, type CommandForm, configOption, oneOfOption } from './command.ts'
import { instantOption } from './instant-option.ts'
import { Failure, type Io } from './io.ts'
import { createProgress } from './progress.ts'
import { checkWritable } from './report-file.ts'

/** The options that go with `--from-record`, and with no file. */
export const recordOptions = {
  category: { value: '<category>', text: 'With --from-record: of this category' },
  channel: { value: '<channel>', text: 'With --from-record: of this channel only' },
  tenant: { value: '<id>', text: 'With --from-record: of this tenant only' },
  from: { value: '<instant>', text: 'With --from-record: from here on; four weeks before --to by default' },
  to: { value: '<instant>', text: 'With --from-record: up to here; a day ago by default' },
  observations: { value: '<file.csv>', text: 'With --from-record: write the observations too' },
  config: configOption,
} as const satisfies CommandForm['options']

const dayMs = 86_400_000
const weeksUsual = 4

export interface Recording {
  readonly observations: readonly Observation[]
  /** Says what they were made of. */
  readonly source: string
}

/**
 * @throws SluiceError `BAD_USAGE`, and `INVALID_CONFIG` where the store cannot be read
 */
export async function recorded(form: CommandForm, read: Arguments, io: Io): Promise<Recording> {
  const category = read.text('category')
  if (category === undefined)
    throw badUsage(
      form,
      '--from-record needs a category: --category marketing; each has a frequency of its own',
    )
  const channel = oneOfOption(form, read, 'channel', channels)
  const tenant = read.text('tenant')
  const [{ weekMs, recordedObservations, observationsCsv }, { loadConfig }, { openTraffic }] =
    await Promise.all([import('../advice/record.ts'), import('../config/load.ts'), import('../gateway.ts')])
  // Most of what is opened is opened within a day.
  const to = instantOption(form, read, 'to') ?? Date.now() - dayMs
  const from = instantOption(form, read, 'from') ?? to - weeksUsual * weekMs
  if (to - from < weekMs) throw badUsage(form, '--from must lie a week before --to, or more')
  const file = read.text('observations')
  if (file !== undefined) checkWritable(form, file, io)
  const path = read.text('config')
  const config = loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  const source = await openTraffic(config.store)
  const progress = createProgress(io, 'read')
  try {
    const found = await recordedObservations({
      source,
      from,
      to,
      category,
      ...(channel === undefined ? {} : { channel }),
      ...(tenant === undefined ? {} : { tenant }),
      onProgress: progress.show,
    })
    if ('tooMany' in found)
      throw new Failure(
        `more than ${found.tooMany.toLocaleString('en')} recipients and weeks were notified in that period`,
        { hint: 'Narrow it by --from and --to, --channel or --tenant.' },
      )
    const { observations } = found
    if (file !== undefined) writeFileSync(resolve(io.cwd, file), observationsCsv(observations))
    const weeks = Math.floor((to - from) / weekMs)
    return {
      observations,
      source: `the record of ${weeks} ${weeks === 1 ? 'week' : 'weeks'} up to ${new Date(to).toISOString().slice(0, 16)}Z, category ${category}${channel === undefined ? '' : `, channel ${channel}`}${tenant === undefined ? '' : `, tenant ${tenant}`}`,
    }
  } finally {
    progress.end()
    await source.close()
  }
}

/** Refuses the options of `--from-record` beside a file. */
export function withoutRecord(form: CommandForm, read: Arguments): void {
  const given = Object.keys(recordOptions).find((option) => read.has(option))
  if (given !== undefined) throw badUsage(form, `--${given} goes with --from-record, not with a file`)
}
