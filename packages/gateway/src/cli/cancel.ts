/** `sluice cancel`: cancels a notification that still waits; its places in the limits are given back. */
import { createClient } from './client.ts'
import { type Arguments, type CommandForm, gatewayOptions } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { plain } from './text.ts'

export const form: CommandForm = {
  name: 'cancel',
  summary: 'Cancel a notification that still waits; its places in the limits are given back.',
  positionals: ['<notificationId>'],
  options: gatewayOptions,
  examples: [['sluice cancel 01KAJ2ZC5T0V6QH7N3W8XEY4RD', 'Exit code 1 where it has left or ended']],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const id = read.positionals[0]!
  await createClient(read, io).delete(`/notifications/${encodeURIComponent(id)}`)
  io.out(
    read.has('json')
      ? JSON.stringify({ notificationId: id, status: 'cancelled' })
      : `${plain(id)} is cancelled.`,
  )
  return exitCodes.ok
}
