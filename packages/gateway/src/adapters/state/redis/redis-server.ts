/**
 * One Redis server: a connection, and the rounds of questions over it. All questions of one turn of the event loop are one
 * pipeline, which ends with `INFO replication` on the same connection: their answers count only if the server is a
 * master then, in the life under which it is registered. No command is repeated that may have been worked; a question
 * is asked again only where the answer says that nothing was done.
 */
import { once } from 'node:events'
import type { ServerLife } from '../../../ports/limiter.ts'
import type { Clock } from '../../../ports.ts'
import { fieldOf, isClock, isUnknownScript, type Reply, redirectionOf, unavailable } from './redis-answers.ts'
import { createRedisClient } from './redis-client.ts'
import { type ClockReading, lookAtTime, readClock, slackOf } from './redis-clock.ts'
import { RoundWindow } from './round-window.ts'
import { type Script, scripts } from './scripts.ts'

/** Certificates in PEM. */
export interface RedisTls {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

export interface RedisServerOptions {
  /** With its credentials. */
  readonly url: string
  /** Host and port, as the cluster names it. */
  readonly node: string
  readonly tls?: RedisTls | undefined
  /** Gives this life of the server its number (`Registrations.register`). */
  readonly register: (life: ServerLife) => number | Promise<number>
  /** Names a key that nobody uses, of a slot that the server has. */
  readonly emptyKey: () => string
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  /** The longest time that most questions may take, ms. */
  readonly deadlineMs: number
  /** True if the scripts take the time of `clock` in place of the server's, for virtual time. @defaultValue false */
  readonly isVirtual?: boolean | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

/** A question: a script, its keys, which have one slot, and the arguments behind those of the prologue. */
interface Question {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly string[]
  /** The instant of `clock.monotonic` after which nobody waits for the answer. */
  readonly endsAt: number
}

export interface RedisServer {
  readonly node: string
  /** Rejects with STATE_UNAVAILABLE by `endsAt`, and with a `Redirection`. */
  ask(question: Question): Promise<Reply>
  /**
   * Hears the newest registration of the node. Where it is not that of this connection, another process has met a later
   * life of the server, and a new connection leads there: the address may be that of a proxy or of a name. Returns true where
   * it is newer than what was heard before, or less, as of a record that has lost its last commits: what was answered
   * before may be that of another life.
   */
  expect(number: number): boolean
  /** Gives the connection up, with all questions under way: what is asked next is asked after a new registration. */
  renew(): void
  /** Sends one command outside the rounds: waits for a connection a second at most, and as long as a round for the answer. */
  command(...args: readonly string[]): Promise<Reply>
  close(): void
}

interface Pending extends Question {
  readonly resolve: (reply: Reply) => void
  readonly reject: (error: unknown) => void
  /** The time that the server has for it, ms. */
  readonly allowanceMs: number
  /** The instant of `performance.now` at which it is given up. */
  overAt: number
  /** True once it was sent. */
  isSent: boolean
  /** How often it was asked again. */
  again: number
  /** The reason for which it could not be asked yet. */
  obstacle: unknown
  isOver: boolean
}

/** The state of a connection that is ready: what the server is, and what its clock says. */
interface Standing extends ClockReading {
  readonly epoch: number
  readonly incarnation: number
  readonly replicationId: string
}

const roundMax = 128
/** A round that stays unanswered for so long at least ends the connection, ms: a fill of a long record takes as long. */
const silenceMinMs = 2_000
/** A connection that leads to the wrong server is left when it is so old, ms: the next one may lead there, too. */
const leaveMs = 500
/** The longest wait for a connection before a command outside the rounds, ms. */
const connectMs = 1_000
const againMax = 2
/** Makes the client answer bulk strings, whose type is `$` in RESP, as bytes. */
const bytesMapping = { typeMapping: { 36: Buffer } }

export function createRedisServer(options: RedisServerOptions): RedisServer {
  const { url, tls, node, clock, deadlineMs, isVirtual = false, onError } = options
  const silenceMs = Math.max(silenceMinMs, 2 * deadlineMs)
  let client = connect()
  /** The instants of `performance.now` at which the connection was made, and at which it was made or found ready last. */
  let madeAt = performance.now()
  let readyAt = madeAt
  let standing: Standing | undefined
  let waiting: Pending[] = []
  let isStarting = false
  let isPreparing = false
  let inFlight = 0
  const roundWindow = new RoundWindow(deadlineMs)
  /** The instant of `performance.now` of the last answers. */
  let answeredAt = Number.NEGATIVE_INFINITY
  let isClosed = false
  /** The newest registration of the node that this process has heard of; before it has, its own first one. */
  let expected = 0

  function connect() {
    const made = createRedisClient({
      url,
      // A question that waited for a connection would be worked when its caller has gone.
      disableOfflineQueue: true,
      disableClientInfo: true,
      // Questions have deadlines of their own; the client would make an abort signal for each command.
      commandOptions: { timeout: 0 },
      maintNotifications: 'disabled',
      socket: {
        ...(url.startsWith('rediss:') ? { tls: true as const, ...tls } : {}),
        connectTimeout: 2_000,
        reconnectStrategy: (tries: number) => Math.min(500, 50 * (tries + 1)),
      },
    })
    made.on('error', (error) => onError?.(error))
    made.connect().catch((error: unknown) => onError?.(error))
    return made
  }

  /** Ends a connection on which nothing is answered, and opens another. */
  function reconnect(): void {
    if (isClosed) return
    standing = undefined
    end()
    client = connect()
    madeAt = performance.now()
    readyAt = madeAt
  }

  /**
   * Leaves a server that is not the one to ask, for the address may be that of a proxy or of a name and lead to another one
   * by now: the connection to a server that was demoted stays open.
   */
  function leave(): void {
    standing = undefined
    if (performance.now() - madeAt >= leaveMs) reconnect()
  }

  function left(why: string): Error {
    leave()
    return new Error(why)
  }

  function end(): void {
    // A client that has ended by itself refuses to be ended.
    if (client.isOpen) client.destroy()
  }

  const send = (args: readonly string[], inBytes = false): Promise<Reply> =>
    client.sendCommand<Reply>([...args], inBytes ? bytesMapping : undefined)

  /** Gives a connection up whose greeting stays unanswered. */
  function lookAtGreeting(): void {
    if (client.isReady) readyAt = performance.now()
    else if (performance.now() - readyAt > silenceMs) reconnect()
  }

  async function register(silence: NodeJS.Timeout): Promise<void> {
    const met = client
    const epoch = client.socketEpoch
    const asked = ['server', 'replication'].map((section) => send(['INFO', section]))
    const [refusal, ...parts] = await Promise.all([tryToWrite(), ...asked])
    const info = parts.join('\n')
    if (fieldOf(info, 'role') !== 'master') throw left(`${node} is no master`)
    if (refusal !== undefined) throw refusal
    // They are 0.1 MB, and one that takes no writes is asked again every few ms.
    await Promise.all(scripts.map(({ text }) => send(['SCRIPT', 'LOAD', text])))
    const replicationId = fieldOf(info, 'master_replid')
    const reading = await readClock(node, clock, () => send(['TIME']))
    clearTimeout(silence)
    const before = expected
    const incarnation = await options.register({ node, runId: fieldOf(info, 'run_id'), replicationId })
    // A record that gives less than before, though it was told nothing meanwhile, has lost its last commits.
    if (incarnation < expected && expected !== before) throw left(`another life of ${node} is registered`)
    if (met !== client) throw new Error('the connection was ended')
    // A life that a later registration of this process finds is newer all the same, until the store tells of it.
    if (expected === 0 || incarnation < expected) expected = incarnation
    standing = { epoch, incarnation, replicationId, ...reading }
  }

  /** Returns why the server takes no writes though it answers: it has no memory left, or cannot save what it has. */
  function tryToWrite(): Promise<unknown> {
    const written = send(['EVAL', "return redis.call('SET', KEYS[1], '', 'PX', 1)", '1', options.emptyKey()])
    return written.then(
      () => undefined,
      (error: unknown) => (redirectionOf(error, node) === undefined ? error : undefined),
    )
  }

  function argumentsOf(ready: Standing, question: Pending): string[] {
    const { incarnation, offsetMs } = ready
    const { script, keys, args, overAt } = question
    const now = clock.now()
    const slackMs = slackOf(ready)
    const time = isVirtual
      ? [String(now), '0', '0', '0']
      : ['', String(offsetMs), String(now - slackMs), String(now + overAt - performance.now() + slackMs)]
    return ['EVALSHA', script.sha, String(keys.length), ...keys, String(incarnation), ...time, ...args]
  }

  function settle(question: Pending, error: unknown, reply?: Reply): void {
    if (question.isOver) return
    question.isOver = true
    if (error === undefined) question.resolve(reply!)
    else question.reject(error)
  }

  /** Asks again what was certainly not worked. */
  function repeat(question: Pending, why: unknown): void {
    question.again += 1
    if (question.again > againMax || question.isOver) settle(question, unavailable(node, why))
    else enqueue(question)
  }

  /** One that is asked again stands before all that have never been asked: questions keep their order. */
  function enqueue(question: Pending): void {
    const at = question.again > 0 ? waiting.findIndex(({ again }) => again === 0) : -1
    waiting.splice(at < 0 ? waiting.length : at, 0, question)
    startSoon()
  }

  /** Starts a round with what this turn of the event loop has asked. */
  function startSoon(): void {
    if (isStarting) return
    isStarting = true
    setImmediate(() => {
      isStarting = false
      startRound()
    })
  }

  function startRound(): void {
    waiting = waiting.filter(({ isOver }) => !isOver)
    if (waiting.length === 0) return
    const ready = standing
    if (ready?.epoch !== client.socketEpoch || !client.isReady) return void prepare()
    const questions = waiting.splice(0, Math.max(0, Math.min(roundMax, roundWindow.size - inFlight)))
    // The round under way that leaves no room starts the next one.
    if (questions.length === 0) return
    if (waiting.length > 0) startSoon()
    void ask(ready, questions)
  }

  /**
   * Registers the connection, once for each of its lives; each question waits for that as long as its caller does. Where its
   * answer, or that to the greeting, is lost, it is given up as one whose round stays unanswered; the record may take longer.
   */
  async function prepare(): Promise<void> {
    if (isPreparing) return
    isPreparing = true
    standing = undefined
    lookAtGreeting()
    const silence = setTimeout(reconnect, silenceMs)
    try {
      await register(silence)
      startSoon()
    } catch (error) {
      // Why there is no connection, the connection tells.
      if (client.isReady) onError?.(error)
      for (const question of waiting) {
        question.obstacle = error
        if (isClosed) settle(question, unavailable(node, error))
      }
      if (!isClosed) setTimeout(startSoon, 5)
    } finally {
      clearTimeout(silence)
      isPreparing = false
    }
  }

  async function ask(ready: Standing, questions: readonly Pending[]): Promise<void> {
    const asked = client
    const silence = setTimeout(reconnect, silenceMs)
    const sentAt = performance.now()
    for (const question of questions) {
      // The time that it waited here is no lateness of the server.
      if (!question.isSent) question.overAt = Math.max(question.overAt, sentAt + question.allowanceMs)
      question.isSent = true
    }
    inFlight += questions.length
    const answers = questions.map((question) => send(argumentsOf(ready, question), question.script.inBytes))
    const round = [send(['INFO', 'replication']), send(['TIME']), ...answers] as const
    const [info, time, ...results] = await Promise.allSettled(round)
    inFlight -= questions.length
    roundWindow.answered(questions.length, performance.now() - sentAt)
    if (waiting.length > 0) startSoon()
    clearTimeout(silence)
    if (asked !== client || client.socketEpoch !== ready.epoch || info.status === 'rejected') {
      const cause = info.status === 'rejected' ? info.reason : 'the connection was lost'
      for (const question of questions) settle(question, unavailable(node, cause))
      return
    }
    const about = String(info.value)
    if (fieldOf(about, 'role') !== 'master' || fieldOf(about, 'master_replid') !== ready.replicationId) {
      // Whatever was answered stands in a life that has ended. Under the next number it is unknown.
      if (standing === ready) leave()
      for (const question of questions) settle(question, unavailable(node, 'the server has changed its role'))
      return
    }
    answeredAt = performance.now()
    const seen =
      isVirtual || time.status === 'rejected' ? 'right' : lookAtTime(time.value, ready, clock.now())
    const failure = seen === 'ahead' ? unavailable(node, 'its clock was set on') : undefined
    let needsScripts = false
    let needsClock = seen !== 'right'
    for (const [index, result] of results.entries()) {
      const question = questions[index]!
      if (result.status === 'fulfilled' && !isClock(result.value)) settle(question, failure, result.value)
      // One that came when its caller had given up says nothing of the clock.
      else if (result.status === 'fulfilled') needsClock ||= question.overAt > answeredAt
      else if (isUnknownScript(result.reason)) needsScripts = true
      else settle(question, redirectionOf(result.reason, node) ?? unavailable(node, result.reason))
    }
    if (needsScripts || needsClock) {
      if (standing === ready) standing = undefined
      for (const question of questions)
        if (!question.isOver) repeat(question, needsClock ? 'its clock is not the fleet’s' : 'unknown script')
    }
  }

  return {
    node,
    ask: (question) =>
      new Promise<Reply>((resolve, reject) => {
        const allowanceMs = Math.max(0, question.endsAt - clock.monotonic())
        const pending: Pending = {
          ...question,
          resolve,
          reject,
          allowanceMs,
          overAt: performance.now() + allowanceMs,
          isSent: false,
          again: 0,
          obstacle: 'no answer in time',
          isOver: false,
        }
        let timer: NodeJS.Timeout
        const arm = (): void => {
          // An answer that is here already is read first: this process may be the one that is late.
          const look = () => setImmediate(giveUp)
          timer = setTimeout(look, Math.max(0, pending.overAt - performance.now()))
        }
        const giveUp = (): void => {
          if (pending.isOver) return
          // Behind others in a queue of this process, whom the server answers.
          if (!pending.isSent) pending.overAt = Math.max(pending.overAt, answeredAt + allowanceMs)
          if (pending.overAt > performance.now()) arm()
          else settle(pending, unavailable(node, pending.obstacle))
        }
        arm()
        const over =
          <T>(settled: (value: T) => void) =>
          (value: T) => {
            clearTimeout(timer)
            settled(value)
          }
        enqueue(Object.assign(pending, { resolve: over(resolve), reject: over(reject) }))
      }),
    expect(number) {
      const isLost = number < expected && number !== standing?.incarnation
      const isNewer = isLost || number > expected
      expected = Math.max(expected, number)
      if (standing === undefined && isNewer) leave()
      else if (standing !== undefined && (isLost || standing.incarnation < expected)) reconnect()
      return isNewer
    },
    renew: reconnect,
    async command(...args) {
      lookAtGreeting()
      if (!client.isReady) await once(client, 'ready', { signal: AbortSignal.timeout(connectMs) })
      const silence = setTimeout(reconnect, silenceMs)
      return send(args).finally(() => clearTimeout(silence))
    },
    close() {
      isClosed = true
      end()
    },
  }
}
