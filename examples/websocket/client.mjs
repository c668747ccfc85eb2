/**
 * A client for Sluice's WebSocket, for browsers and Node alike: it subscribes, connects again with growing pauses, and
 * hands over each notification once. Copy it and change it.
 */

const firstPauseMs = 500
const pauseMaxMs = 30_000
/** Notifications that are remembered, so that one which comes twice is shown once. */
const rememberedMax = 1_000

export function open({ url, token, channels, onMessage, onState = () => {} }) {
  const seen = new Set()
  let socket
  let pauseMs = firstPauseMs
  let closed = false

  function connect() {
    socket = token ? new WebSocket(url, ['sluice', token]) : new WebSocket(url)
    socket.onopen = () => {
      pauseMs = firstPauseMs
      onState('open')
      for (const channel of channels) say({ type: 'subscribe', channel })
    }
    socket.onmessage = ({ data }) => hear(JSON.parse(data))
    socket.onclose = ({ code, reason }) => {
      onState(`closed: ${code} ${reason}`)
      // 4401: the token has expired. The same one would be refused; get another first.
      if (closed || code === 4401) return
      setTimeout(connect, pauseMs * (0.5 + Math.random() / 2))
      pauseMs = Math.min(pauseMaxMs, pauseMs * 2)
    }
  }

  function hear(message) {
    if (message.type === 'message' && isRepetition(message)) return
    onMessage(message)
  }

  function isRepetition({ channel, data }) {
    if (!channel.startsWith('recipient:')) return false
    if (seen.has(data.notificationId)) return true
    seen.add(data.notificationId)
    if (seen.size > rememberedMax) seen.delete(seen.values().next().value)
    return false
  }

  function say(message) {
    if (socket.readyState !== WebSocket.OPEN) return false
    socket.send(JSON.stringify(message))
    return true
  }

  connect()
  return {
    publish: (channel, data) => say({ type: 'publish', channel, data }),
    close() {
      closed = true
      socket.close()
    },
  }
}
