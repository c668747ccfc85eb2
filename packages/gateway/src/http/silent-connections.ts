/**
 * Ends the connections on which nothing has been sent while the server closes: browsers and proxies open some ahead. Node
 * takes each for busy with its first request, and would wait for that until the deadline of the shutdown.
 */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

export interface SilentConnections {
  /** Ends them from now on, until the server has closed. */
  end(): void
}

/** A connection may be silent for so long, ms: its first request may be on its way. */
const silentMs = 500
const lookEveryMs = 100

export function createSilentConnections(server: Server): SilentConnections {
  /** The open connections, each with the time of `performance.now` at which it was opened. */
  const opened = new Map<Socket, number>()
  server.on('connection', (socket: Socket) => {
    opened.set(socket, performance.now())
    socket.once('close', () => opened.delete(socket))
  })

  function look(): void {
    const before = performance.now() - silentMs
    for (const [socket, openedAt] of opened) if (socket.bytesRead === 0 && openedAt < before) socket.destroy()
  }

  return {
    end() {
      const timer = setInterval(look, lookEveryMs).unref()
      server.once('close', () => clearInterval(timer))
    },
  }
}
