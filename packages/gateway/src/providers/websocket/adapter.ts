/**
 * Delivers notifications over the gateway's own WebSockets, to the subscribers of `recipient:<id>`. Delivered means
 * that at least one open socket took it. Offline recipients are held back earlier (offline-recipient.ts), so a
 * failure here concerns a recipient whose connection closed a moment later.
 */
import type { JsonObject } from '../../model.ts'
import type { Message, Presence, Provider, SendResult } from '../../ports.ts'

const notConnected: SendResult = { outcome: 'failed', detail: 'not connected', recipientFault: true }

export function createWebSocketProvider({ presence }: { readonly presence: Presence }): Provider {
  return {
    name: 'websocket',
    // A client recognises a repetition by its notificationId; the gateway cannot know that this one checks.
    idempotent: false,
    channels: ['websocket'],
    async send(message, _account, signal) {
      if (signal.aborted) return { outcome: 'failed', detail: 'no time left' }
      switch (await presence.deliver(message.tenant, message.to.id, dataOf(message), signal)) {
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
 * Makes the sandbox publish its deliveries on this channel to connected clients: else a gateway without any `pools`
 * would show them nothing.
 */
export function heardByTheConnected(sandbox: Provider, presence: Presence): Provider {
  return {
    ...sandbox,
    async send(message, account, signal, onWritten) {
      const result = await sandbox.send(message, account, signal, onWritten)
      if (result.outcome === 'delivered')
        void presence.deliver(message.tenant, message.to.id, dataOf(message), signal)
      return result
    },
  }
}

/** The content that a client finds in `data`. */
function dataOf({ id, category, content, data }: Message): JsonObject {
  return { notificationId: id, category, content, data: data ?? {} }
}
