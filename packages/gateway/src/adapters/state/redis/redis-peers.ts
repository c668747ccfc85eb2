/**
 * The talk of the processes of a fleet (ports/fleet.ts), over the texts that they publish in Redis: one channel for all, and
 * one for each process. What a process says in one turn of the event loop is one text a channel. A process is known from
 * its first beat until it takes leave, is declared dead, or was not heard for some time.
 */
import type { PeerAnswers, Peers } from '../../../ports/fleet.ts'
import type { RedisBus } from './redis-bus.ts'

export interface RedisPeersOptions {
  readonly bus: RedisBus
  /** The name of this process, as no other process has it. */
  readonly member: string
  /** Precedes the channels. @defaultValue 'sl:' */
  readonly prefix?: string | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

/** A message of the process `b`: a beat, a message about a topic, a question with its number, or the answer to one. */
interface Message {
  readonly b: string
  readonly k: 'new' | 'here' | 'bye' | 'tell' | 'ask' | 'answer'
  readonly t?: string
  readonly n?: number
  readonly v?: unknown
}

interface Peer {
  heardAtMs: number
  /** True after a question that it did not answer, until it is heard again. */
  isSilent: boolean
}

interface OpenQuestion {
  readonly answers: Map<string, unknown>
  /** The processes that are still waited for. */
  readonly open: Set<string>
  readonly isEnough: ((answer: unknown) => boolean) | undefined
  readonly end: () => void
}

/** Time between two beats, ms. */
const beatMs = 1_000
/** A process that was not heard for so long has gone, ms: longer than it takes to declare one dead. */
const goneMs = 20_000
const answerMs = 1_000
/** Behind the deadline of a question, ms: this process itself may have been held up, and answers wait to be read. */
const graceMs = 20
/** Bytes of one turn at most: further messages are lost. */
const turnMaxBytes = 16 * 1_048_576

/** Resolves when it hears the others, or has tried once. */
export async function createRedisPeers(options: RedisPeersOptions): Promise<Peers> {
  const { bus, member, prefix = 'sl:', onError } = options
  const all = `${prefix}peers`
  const channelOf = (peer: string): string => `${all}:${peer}`
  /** As many as processes were heard within the last `goneMs`. */
  const peers = new Map<string, Peer>()
  const listeners = new Map<string, Set<(message: unknown, from: string) => void>>()
  const answerers = new Map<string, (question: unknown, from: string) => unknown>()
  const asking = new Map<number, OpenQuestion>()
  /** The messages of this turn, as JSON, by channel. */
  const turn = new Map<string, string[]>()
  const lostListeners = new Set<() => void>()
  let wasReady = false
  let turnBytes = 0
  let questions = 0
  let isOpen = true

  function send(message: Omit<Message, 'b'>, to?: string): void {
    if (!isOpen) return
    const text = JSON.stringify({ b: member, ...message })
    if (turnBytes + text.length > turnMaxBytes) return
    if (turn.size === 0) setImmediate(flush)
    turnBytes += text.length
    const channel = to === undefined ? all : channelOf(to)
    const texts = turn.get(channel)
    if (texts === undefined) turn.set(channel, [text])
    else texts.push(text)
  }

  function flush(): void {
    for (const [channel, texts] of turn) bus.publish(channel, `[${texts.join()}]`)
    turn.clear()
    turnBytes = 0
  }

  function hear(text: string): void {
    attempt(() => {
      for (const message of JSON.parse(text) as readonly Message[])
        if (message.b !== member) attempt(() => handle(message))
    })
  }

  /** Reports an error: a listener that throws costs its own message, and not the others of the same turn. */
  function attempt(work: () => void): void {
    try {
      work()
    } catch (error) {
      onError?.(error)
    }
  }

  function handle({ b: from, k: kind, t: topic = '', n: number = 0, v: value }: Message): void {
    if (kind === 'bye') {
      forget(from)
      return
    }
    peers.set(from, { heardAtMs: performance.now(), isSilent: false })
    if (kind === 'new') send({ k: 'here' }, from)
    else if (kind === 'tell')
      for (const listener of listeners.get(topic) ?? []) attempt(() => listener(value, from))
    else if (kind === 'ask') void reply(topic, number, value, from)
    else if (kind === 'answer') note(number, from, value)
  }

  async function reply(topic: string, number: number, question: unknown, from: string): Promise<void> {
    const answerer = answerers.get(topic)
    if (answerer === undefined) return
    try {
      const answer = answerer(question, from)
      send({ k: 'answer', n: number, v: answer instanceof Promise ? await answer : answer }, from)
    } catch (error) {
      onError?.(error)
    }
  }

  function note(number: number, from: string, answer: unknown): void {
    const question = asking.get(number)
    if (question === undefined || !question.open.delete(from)) return
    question.answers.set(from, answer)
    if (question.open.size === 0 || question.isEnough?.(answer) === true) question.end()
  }

  function forget(peer: string): void {
    peers.delete(peer)
    for (const question of asking.values())
      if (question.open.delete(peer) && question.open.size === 0) question.end()
  }

  const beating = setInterval(() => {
    send({ k: 'here' })
    // While nothing is heard nobody has gone.
    if (!bus.isReady()) for (const peer of peers.values()) peer.heardAtMs = performance.now()
    const nowMs = performance.now()
    for (const [name, { heardAtMs }] of peers) if (nowMs - heardAtMs > goneMs) forget(name)
  }, beatMs)
  beating.unref()

  await bus.subscribe(channelOf(member), hear)
  // Others answer a new process at once: it need not wait for their beats.
  await bus.subscribe(all, hear, () => {
    send({ k: 'new' })
    if (wasReady) for (const listener of lostListeners) attempt(listener)
    wasReady = true
  })

  return {
    tell: (topic, message, to) => send({ k: 'tell', t: topic, v: message }, to),
    listen(topic, listener) {
      const known = listeners.get(topic) ?? new Set()
      listeners.set(topic, known.add(listener))
      return () => void known.delete(listener)
    },
    ask(topic, question, { to, withinMs = answerMs, isEnough } = {}) {
      const asked = to === undefined ? [...peers.keys()] : [to]
      const open = new Set(
        isOpen && bus.isReady() ? asked.filter((name) => peers.get(name)?.isSilent === false) : [],
      )
      const answers = new Map<string, unknown>()
      const silent = (): readonly string[] => asked.filter((name) => peers.has(name) && !answers.has(name))
      if (open.size === 0) return Promise.resolve({ answers, silent: silent() })
      questions += 1
      const number = questions
      return new Promise<PeerAnswers>((resolve) => {
        const end = (): void => {
          clearTimeout(timer)
          asking.delete(number)
          resolve({ answers, silent: silent() })
        }
        let timer = setTimeout(() => {
          timer = setTimeout(() => {
            for (const name of open) {
              const peer = peers.get(name)
              if (peer !== undefined) peer.isSilent = true
            }
            end()
          }, graceMs)
        }, withinMs)
        asking.set(number, { answers, open, isEnough, end })
        send({ k: 'ask', t: topic, n: number, v: question }, to)
      })
    },
    answer: (topic, answerer) => void answerers.set(topic, answerer),
    onLost: (listener) => void lostListeners.add(listener),
    noteGone(members) {
      for (const name of members) forget(name)
    },
    async close() {
      send({ k: 'bye' })
      flush()
      isOpen = false
      clearInterval(beating)
      for (const question of asking.values()) question.end()
      // The client writes after this turn, and the bus may be closed next.
      await new Promise(setImmediate)
    },
  }
}
