/** `sluice top`: the present of the gateway on one page, redrawn each second; first the problems, each a sentence. */
import { setTimeout as delay } from 'node:timers/promises'
import type { BacklogAnswer, HoldsAnswer, OverviewAnswer } from './answers.ts'
import { backlogText } from './backlog.ts'
import { type Client, createClient } from './client.ts'
import { type Arguments, type CommandForm, gatewayOptions } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { indent, instant, paint, plain } from './text.ts'

export const form: CommandForm = {
  name: 'top',
  summary: 'What happens now: problems, rates, latency, what waits and when it is gone.',
  options: { ...gatewayOptions, once: { text: 'Print the page once; the default where no terminal is' } },
  examples: [
    ['sluice top', 'Redrawn each second, until Ctrl-C'],
    ['sluice top --once --json', 'For a program'],
  ],
}

/** Holds that one page names. */
const holdsMax = 5
const redrawEveryMs = 1_000
const clear = '\u001b[H\u001b[2J'

export async function run(read: Arguments, io: Io): Promise<number> {
  const client = createClient(read, io)
  const tenant = read.text('tenant')
  const isOnce = read.has('once') || read.has('json') || !io.colours
  for (;;) {
    const page = await pageOf(client, tenant)
    if (read.has('json')) io.out(JSON.stringify(page, null, 2))
    else io.out(`${isOnce ? '' : clear}${pageText(page, Date.now(), io)}`)
    if (isOnce) return exitCodes.ok
    await delay(redrawEveryMs)
  }
}

interface Page {
  readonly overview: OverviewAnswer
  readonly backlog: BacklogAnswer
  /** The holds in force; absent for a tenant's own view. */
  readonly holds?: HoldsAnswer['items']
}

async function pageOf(client: Client, tenant: string | undefined): Promise<Page> {
  const [{ series: _, ...overview }, { departures: _counts, ...backlog }] = await Promise.all([
    client.get<OverviewAnswer>('/overview', { tenant, step: 'minute' }),
    client.get<BacklogAnswer>('/backlog', { tenant }),
  ])
  // The figures of all tenants come for operators alone, who may read the holds too.
  if (overview.rates === undefined) return { overview, backlog }
  return { overview, backlog, holds: (await client.get<HoldsAnswer>('/holds')).items }
}

function pageText({ overview, backlog, holds = [] }: Page, now: number, io: Io): string {
  const { at, rates, latency, cause, accounts, problems, deadLetters, dueNow, oldestDueMs, unaccounted } =
    overview
  const ms = (value: number | null): string => (value === null ? '–' : `${value} ms`)
  const dead = Object.entries(deadLetters.byCause).map(([cause, count]) => `${count} ${cause}`)
  return [
    ...(cause === undefined ? [] : [plain(cause.text)]),
    paint(io, 'dim', instant(at)),
    ...(problems ?? []).map(({ severity, text, until }) =>
      paint(
        io,
        severity === 'page' ? 'red' : 'yellow',
        plain(`${text}${until === undefined ? '' : ` The first is back at ${instant(until)}.`}`),
      ),
    ),
    ...(problems?.length === 0 ? [paint(io, 'green', 'No problem is known.')] : []),
    '',
    ...(rates === undefined
      ? []
      : [
          `per second  accepted ${rates.accepted} · delivered ${rates.delivered} · suppressed ${rates.suppressed} · 429 of providers ${rates.rateLimited} · 4xx ${rates.requests4xx} · 5xx ${rates.requests5xx}`,
        ]),
    ...(latency === undefined
      ? []
      : [
          `latency     accept p50 ${ms(latency.acceptP50Ms)}, p99 ${ms(latency.acceptP99Ms)} · late p50 ${ms(latency.latenessP50Ms)}, p99 ${ms(latency.latenessP99Ms)}`,
        ]),
    ...(accounts === undefined
      ? []
      : [
          `accounts    ${Object.entries(accounts)
            .filter(([status, count]) => count > 0 || status === 'healthy')
            .map(([status, count]) => `${count} ${status}`)
            .join(' · ')}`,
        ]),
    ...holds.slice(0, holdsMax).map((hold) => plain(`held        ${heldText(hold)}`)),
    ...(holds.length > holdsMax ? [`held        ${holds.length - holdsMax} more: sluice hold`] : []),
    `due         ${dueNow}${dueNow === 0 ? '' : `, the oldest for ${Math.round(oldestDueMs / 1_000)} s`}`,
    `dead        ${dead.length === 0 ? 'none' : dead.join(' · ')}`,
    ...(unaccounted === undefined || unaccounted === 0 ? [] : [`unaccounted ${unaccounted}`]),
    '',
    indent(backlogText(backlog, now, io)),
  ].join('\n')
}

/** One line about a hold: its selection, its end and its reason. */
function heldText({
  name,
  account,
  tenant,
  channel,
  category,
  until,
  reason,
}: HoldsAnswer['items'][number]): string {
  const only = Object.entries({ tenant, channel, category }).flatMap(([field, value]) =>
    value === undefined ? [] : [`${field} ${value}`],
  )
  const kept = account === undefined ? `${name} (${only.join(', ') || 'everything'})` : `account ${name}`
  return `${kept} until ${instant(until)}: ${reason}`
}
