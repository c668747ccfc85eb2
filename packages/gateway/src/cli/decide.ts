/** `sluice decide`: shows the decision that a notification would get now; nothing is sent and nothing counts. */
import type { DecisionAnswer } from './answers.ts'
import { createClient } from './client.ts'
import { type Arguments, type CommandForm, gatewayOptions } from './command.ts'
import { decided } from './explain.ts'
import { exitCodes, type Io } from './io.ts'
import { messageBody, messageOptions } from './message-options.ts'

export const form: CommandForm = {
  name: 'decide',
  summary: 'The decision that a notification would get now; nothing is sent and nothing counts.',
  options: { ...gatewayOptions, ...messageOptions },
  examples: [
    ['sluice decide --to user-42 --category marketing --subject a --text b', 'Would it leave now?'],
    ['sluice decide --to user-42 --channel sms --text b --at 2026-11-22T23:00:00Z --json', 'And at night?'],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const decision = await createClient(read, io).post<DecisionAnswer>('/decisions', messageBody(form, read))
  io.out(read.has('json') ? JSON.stringify(decision, null, 2) : decided(decision, Date.now(), io))
  return exitCodes.ok
}
