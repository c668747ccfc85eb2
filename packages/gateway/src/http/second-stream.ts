/**
 * Server-sent events once a second, for operators: one reading serves all readers, and without a reader nothing is read.
 * The number of readers is bounded, and a reader that does not keep up is disconnected (event-stream.ts).
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { SluiceError } from '../errors.ts'
import type { Clock } from '../ports.ts'
import { EventStream, openEventStream } from './event-stream.ts'
import type { Route } from './route.ts'

export interface SecondStreamOptions {
  /** The path, names and description of the route. */
  readonly route: Pick<Route, 'path' | 'operation' | 'summary' | 'details' | 'answers'>
  /** The subject of the stream in the refusal of a reader, such as `the overview`. */
  readonly of: string
  readonly clock: Clock
  /** Streams of all operators at most; one more is refused. */
  readonly readersMax: number
  /** Called when the first reader comes, before its `welcome`. */
  begin(): void
  /** The first events of a reader, which has seen the event with this id before. */
  welcome(after: number | undefined): string
  /** The events of the second that is over, for all readers. */
  tick(): string
}

export interface SecondStream {
  readonly routes: readonly Route[]
  /** Ends all streams. */
  close(): void
}

const secondMs = 1_000
/** The Retry-After of a reader for whom there is no stream left, ms. */
const fullRetryAfterMs = 5_000

/** The last second that is over, epoch seconds. */
export const lastSecondOf = (clock: Pick<Clock, 'now'>): number => Math.floor(clock.now() / secondMs) - 1

export function createSecondStream(options: SecondStreamOptions): SecondStream {
  const { route, of, clock, readersMax } = options
  const readers = new Set<EventStream>()
  let stopTicking: (() => void) | undefined

  function tick(): void {
    const text = options.tick()
    if (text !== '') for (const reader of readers) reader.send(text)
    schedule()
  }

  function schedule(): void {
    const next = (Math.floor(clock.now() / secondMs) + 1) * secondMs
    stopTicking = readers.size === 0 ? undefined : clock.at(next, tick)
  }

  function add(reader: EventStream, after: number | undefined): void {
    if (readers.size === 0) options.begin()
    reader.send(`: connected\n\n${options.welcome(after)}`)
    readers.add(reader)
    if (readers.size === 1) schedule()
  }

  function remove(reader: EventStream): void {
    if (!readers.delete(reader) || readers.size > 0) return
    stopTicking?.()
    stopTicking = undefined
  }

  return {
    routes: [
      {
        ...route,
        method: 'GET',
        tag: 'Operation',
        access: 'reader',
        stream: true,
        problems: ['REQUEST_LIMIT_EXCEEDED'],
        handle(request: FastifyRequest, reply: FastifyReply) {
          const after = lastEventId(request.headers['last-event-id'])
          if (readers.size >= readersMax)
            throw new SluiceError(
              'REQUEST_LIMIT_EXCEEDED',
              `${readersMax} streams of ${of} are open already, and there are no more.`,
              { retryAfterMs: fullRetryAfterMs },
            )
          const response = openEventStream(request, reply, () => remove(reader))
          const reader = new EventStream(response)
          add(reader, after)
          return reply
        },
      },
    ],
    close() {
      for (const reader of readers) reader.end()
    },
  }
}

/** The epoch second after which a reader wants to go on; undefined where it has none, or no id of an event. */
const lastEventId = (written: string | string[] | undefined): number | undefined =>
  typeof written === 'string' && /^\d{1,12}$/.test(written) ? Number(written) : undefined

/** Keeps the fields that differ from what they were. */
export function changesOf<Fields extends object>(before: Partial<Fields>, now: Fields): Partial<Fields> {
  const changed = Object.entries(now).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name as keyof Fields]),
  )
  return Object.fromEntries(changed) as Partial<Fields>
}
