/** `sluice tail`: follows changes of state as they happen, a line each; it reconnects where the stream ends. */
import { setTimeout as delay } from 'node:timers/promises'
import { channels, statuses } from '../model.ts'
import { createClient } from './client.ts'
import { type Arguments, badUsage, type CommandForm, gatewayOptions, oneOfOption } from './command.ts'
import { exitCodes, Failure, type Io } from './io.ts'
import { instant, paint, plain, styleOf } from './text.ts'

export const form: CommandForm = {
  name: 'tail',
  summary: 'Changes of state as they happen, a line each, until Ctrl-C.',
  options: {
    ...gatewayOptions,
    notification: { value: '<id>', text: 'Of this notification' },
    recipient: { value: '<id>', text: 'Of this recipient' },
    status: { value: '<status>', text: `One of ${statuses.join(', ')}` },
    channel: { value: '<channel>', text: `One of ${channels.join(', ')}` },
    count: { value: '<n>', text: 'End after so many; endless by default' },
  },
  examples: [
    ['sluice tail --status failed', 'Every failure'],
    ['sluice tail --recipient user-42 --json', 'A JSON line each'],
  ],
}

interface StateEvent {
  readonly at: string
  readonly notificationId: string
  readonly tenant: string
  readonly recipient: string
  readonly channel: string
  readonly status: string
  readonly reason?: string
  readonly provider?: string
  readonly account?: string
  readonly detail?: string
}

const reconnectMs = 1_000

export async function run(read: Arguments, io: Io): Promise<number> {
  const status = oneOfOption(form, read, 'status', statuses)
  const channel = oneOfOption(form, read, 'channel', channels)
  const count = read.text('count') ?? 'Infinity'
  if (count !== 'Infinity' && !/^[1-9]\d{0,8}$/.test(count))
    throw badUsage(form, '--count expects a whole number above 0')
  const client = createClient(read, io)
  const query = {
    tenant: read.text('tenant'),
    notification: read.text('notification'),
    recipient: read.text('recipient'),
  }
  let left = Number(count)
  for (let isFirst = true; left > 0; isFirst = false) {
    try {
      for await (const data of client.events('/events', query)) {
        const event = JSON.parse(data) as StateEvent
        if (status !== undefined && event.status !== status) continue
        if (channel !== undefined && event.channel !== channel) continue
        io.out(read.has('json') ? JSON.stringify(event) : lineOf(event, io))
        left -= 1
        if (left <= 0) return exitCodes.ok
      }
    } catch (error) {
      // The first connection says what is wrong; later ones wait for the gateway to come back.
      if (isFirst || !(error instanceof Failure)) throw error
    }
    io.err('The stream ended; connecting again. What changed meanwhile is in "sluice list".')
    await delay(reconnectMs)
  }
  return exitCodes.ok
}

function lineOf(event: StateEvent, io: Io): string {
  const { at, status, reason, notificationId, recipient, channel, provider, account, detail } = event
  const style = styleOf(status)
  const through = provider === undefined ? undefined : `${provider}/${account}`
  const rest = [reason, through, detail].filter((part) => part !== undefined).join(' · ')
  return `${instant(at)}  ${style === undefined ? plain(status) : paint(io, style, plain(status))}  ${plain(`${notificationId}  ${recipient} by ${channel}${rest === '' ? '' : `  ${rest}`}`)}`
}
