/**
 * The number of a tenant's WebSocket connections, or of its event streams, over all processes: a room in Redis, in which
 * a connection takes one place. What Redis has lost is filled with what each process says of its own connections.
 */
import type { Peers } from '../../../ports/fleet.ts'
import { unavailable } from './redis-answers.ts'
import { createRedisRoom, type RedisRoom, type RedisRoomOptions } from './redis-room.ts'

export interface RedisConnectionsOptions
  extends Omit<RedisRoomOptions, 'record' | 'name' | 'isFilledAtFirst'> {
  readonly peers: Pick<Peers, 'ask' | 'answer'>
  /** Which connections are counted. @defaultValue 'sockets' */
  readonly name?: 'sockets' | 'streams'
}

export function createRedisConnections({
  peers,
  name = 'sockets',
  ...options
}: RedisConnectionsOptions): RedisRoom {
  const topic = `connections:${name}`
  const room = createRedisRoom({
    ...options,
    name,
    isFilledAtFirst: false,
    record: {
      // No commit compares it.
      nextRoomGeneration: async () => 1,
      async tallies(tenant) {
        const { answers, silent } = await peers.ask(topic, tenant)
        if (silent.length > 0) throw unavailable(`the ${name} of ${tenant}`, 'a process does not answer')
        // Others may ask between a fill and this process's next word.
        const uses = new Map(answers).set(options.member, room.taken(tenant).waiting)
        return Array.from(uses, ([member, waiting]) => ({
          member,
          queue: 0,
          waiting: waiting as number,
          bytes: 0,
        }))
      },
    },
  })
  peers.answer(topic, (tenant) => room.own(tenant as string).waiting)
  return room
}
