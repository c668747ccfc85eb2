/** Stands between a store and its server, and loses what a network can lose. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface LossyProxy {
  /** The address of the schema, through the proxy. */
  readonly url: string
  /**
   * Loses the answer to the next statement that has this text, together with its connection. One that is prepared has its
   * text once a connection, and its name each time.
   */
  loseAnswerOf(text: string): void
  /** Answers that were lost, by the text that was given. */
  readonly lost: ReadonlyMap<string, number>
  /** Ends all connections; new ones are made. */
  cutAll(): void
  /** Passes nothing more in either direction, as for a process that was stopped, until `thaw`. */
  freeze(): void
  thaw(): void
  /** Passes the next statement on that has this text, and then freezes: for a process that was stopped before its answer. */
  freezeBehind(text: string): void
  /** Passes nothing more over the next connection that asks for this text, as a network that has forgotten it. */
  forgetAt(text: string): void
  /** Passes each answer on so much later, ms. */
  delayAnswers(ms: number): void
  /** Gives each client the head of an answer for which it has not asked, and leaves its connection open. */
  answerUnasked(): void
  /** Leads new connections to another server; those that are open stay. */
  leadTo(url: string): void
  close(): void
}

export async function startProxy(url: string): Promise<LossyProxy> {
  let target = new URL(url)
  let losing: string | undefined
  let forgetting: string | undefined
  let freezing: string | undefined
  /** Ends of connections that the other side has not heard of. */
  const untold: (() => void)[] = []
  let isFrozen = false
  let answerDelayMs = 0
  const lost = new Map<string, number>()
  const sockets = new Set<Socket>()
  const clients = new Set<Socket>()
  const server = createServer((client) => {
    clients.add(client)
    const behind = connect(Number(target.port), target.hostname)
    let isLost = false
    for (const socket of [client, behind]) {
      sockets.add(socket)
      if (isFrozen) socket.pause()
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        clients.delete(socket)
        const end = (): void => {
          client.destroy()
          behind.destroy()
        }
        // Nor does the end of a connection pass.
        if (isFrozen) untold.push(end)
        else end()
      })
    }
    client.on('data', (bytes) => {
      if (forgetting !== undefined && bytes.includes(forgetting)) {
        forgetting = undefined
        for (const socket of [client, behind]) socket.pause()
        return
      }
      if (losing !== undefined && bytes.includes(losing)) {
        lost.set(losing, (lost.get(losing) ?? 0) + 1)
        losing = undefined
        isLost = true
      }
      behind.write(bytes)
      if (freezing === undefined || !bytes.includes(freezing)) return
      freezing = undefined
      freeze()
    })
    behind.on('data', (bytes) => {
      // The answer has come, so the statement is done.
      if (isLost) client.destroy()
      else if (answerDelayMs === 0) client.write(bytes)
      else setTimeout(() => client.write(bytes), answerDelayMs)
    })
    if (isFrozen) for (const socket of [client, behind]) socket.pause()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const through = new URL(url)
  through.port = String((server.address() as AddressInfo).port)
  const cutAll = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  function freeze(): void {
    isFrozen = true
    for (const socket of sockets) socket.pause()
  }
  return {
    url: through.href,
    loseAnswerOf(text) {
      losing = text
    },
    lost,
    cutAll,
    freeze,
    freezeBehind(text) {
      freezing = text
    },
    thaw() {
      isFrozen = false
      for (const socket of sockets) socket.resume()
      for (const end of untold.splice(0)) end()
    },
    forgetAt(text) {
      forgetting = text
    },
    answerUnasked() {
      // RowDescription of no columns.
      for (const client of clients) client.write(Buffer.from([0x54, 0, 0, 0, 6, 0, 0]))
    },
    leadTo(other) {
      target = new URL(other)
    },
    delayAnswers(ms) {
      answerDelayMs = ms
    },
    close() {
      cutAll()
      server.close()
    },
  }
}
