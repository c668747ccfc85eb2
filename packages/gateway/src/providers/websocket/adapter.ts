/**
 * Carries notifications over the gateway's own WebSockets, to whoever is subscribed to `recipient:<id>`. Delivered
 * means that at least one open socket took it; before that it is known whether anybody is there at all (offline-recipient.ts),
 * so that what fails here had somebody who was gone a moment later.
 */
import type { JsonObject } from '../../model.ts'
import type { Hub, Message, Provider, SendResult } from '../../ports.ts'

const notConnected: SendResult = { outcome: 'failed', detail: 'not connected', recipientFault: true }

export function createWebSocketProvider({ hub }: { readonly hub: Hub }): Provider {
  return {
    name: 'websocket',
    // A client knows a repetition by its notificationId; nobody can know that this one looks.
    idempotent: false,
    channels: ['websocket'],
    async send(message, _account, signal) {
      if (signal.aborted) return { outcome: 'failed', detail: 'no time left' }
      switch (await hub.deliver(message.tenant, message.to.id, dataOf(message), signal)) {
        case 'written':
          return { outcome: 'delivered' }
        case 'absent':
          return notConnected
        case 'unread':
          return {
            outcome: 'failed',
            detail: 'connected, and not reading',
            maybeDelivered: true,
            recipientFault: true,
          }
      }
    },
    async close() {},
  }
}

/**
 * The sandbox carries nothing, but who is connected hears what it takes over this channel: else nothing of what is
 * tried out without any `pools` would ever be seen.
 */
export function heardByTheConnected(sandbox: Provider, hub: Hub): Provider {
  return {
    ...sandbox,
    async send(message, account, signal, onWritten) {
      const result = await sandbox.send(message, account, signal, onWritten)
      if (result.outcome === 'delivered')
        void hub.deliver(message.tenant, message.to.id, dataOf(message), signal)
      return result
    },
  }
}

/** What a client finds in `data`. */
function dataOf({ id, category, content, data }: Message): JsonObject {
  return { notificationId: id, category, content, data: data ?? {} }
}
