/** Makes the clients of Redis, all with the protocol whose answers the scripts are read in. */
import { createClient, type RedisClientOptions } from '@redis/client'

/**
 * node-redis makes a class of some 400 commands for its clients, and keeps the last one for options that are the same as
 * JSON. Classes differ by protocol and modules only; but with the address in that JSON every node of a cluster took some
 * 20 ms of CPU at each connection, in which the gateway did nothing else.
 */
const oneClass = { toJSON: () => 'RESP 2' }

/**
 * Makes a client, which is not connected. One that is destroyed while it connects ends the connection when that is made:
 * node-redis would keep it open for ever.
 */
export function createRedisClient(
  options: Omit<RedisClientOptions, 'RESP' | 'modules' | 'functions' | 'scripts'>,
) {
  const client = createClient({ ...options, RESP: 2 as const, ...oneClass })
  client.on('connect', () => {
    if (!client.isOpen) client.destroy()
  })
  return client
}
