/** `sluice send`: sends one notification, to try the gateway out; what it prints begins with the explanation. */
import type { ExplainedAnswer } from './answers.ts'
import { createClient } from './client.ts'
import { type Arguments, type CommandForm, gatewayOptions } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { messageBody, messageOptions } from './message-options.ts'
import { plain } from './text.ts'

export const form: CommandForm = {
  name: 'send',
  summary: 'Send one notification, to try the gateway out.',
  options: {
    ...gatewayOptions,
    ...messageOptions,
    key: { value: '<key>', text: 'Idempotency key: the same key sends once' },
  },
  examples: [
    ['sluice send --to user-42 --email ada@example.com --subject Hello --text "Hello Ada"', 'By email'],
    ['sluice send --to user-42 --template new-comment --data \'{"post":"…"}\'', 'By a template'],
  ],
}

interface Accepted {
  readonly notificationId: string
  readonly status: string
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const client = createClient(read, io)
  const key = read.text('key')
  const accepted = await client.accept<Accepted>(
    '/notifications',
    messageBody(form, read),
    key === undefined ? {} : { 'idempotency-key': key },
  )
  if (read.has('json')) {
    io.out(JSON.stringify(accepted, null, 2))
    return exitCodes.ok
  }
  const path = `/notifications/${encodeURIComponent(accepted.notificationId)}`
  const { status, explanation } = await client.get<ExplainedAnswer>(path, { explain: 'true' })
  io.out(plain(explanation.text))
  io.out(`${plain(accepted.notificationId)}  ${plain(status)}`)
  return exitCodes.ok
}
