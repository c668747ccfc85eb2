/** A Redis Cluster of three masters, of which one can be cut off from the others while all of them answer their clients. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { startRedis } from '../../../../../../scripts/services/redis.ts'

export interface CutCluster {
  readonly urls: readonly string[]
  /** Cuts the first node off, and heals the cut. */
  cut(is: boolean): void
}

/** The bus of a node listens at its port + 10,000; the name of the sender stands in every packet at this place. */
const [busDistance, nameAt, nameBytes] = [10_000, 40, 40] as const

export async function startCutCluster(t: TestContext): Promise<CutCluster> {
  let isCut = false
  let lonely = ''
  const pairs = new Set<{ readonly between: readonly string[]; readonly near: Socket }>()
  const isLost = ([sender, target]: readonly string[]): boolean => (sender === lonely) !== (target === lonely)

  /** Stands before the bus of a node, where the other nodes find it. */
  async function startGate() {
    const behind = { port: 0, name: '' }
    const server = createServer((near) => {
      const far = connect(behind.port, '127.0.0.1')
      for (const [each, other] of [
        [near, far],
        [far, near],
      ] as const)
        each.on('error', () => {}).on('close', () => other.destroy())
      far.pipe(near)
      near.once('data', (bytes) => {
        const sender = bytes.toString('latin1', nameAt, nameAt + nameBytes)
        const pair = { between: [sender, behind.name], near }
        if (isCut && isLost(pair.between)) return void near.destroy()
        pairs.add(pair)
        near.on('close', () => pairs.delete(pair))
        far.write(bytes)
        near.pipe(far)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    return { behind, port: (server.address() as AddressInfo).port }
  }

  const nodes = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const gate = await startGate()
      const cluster = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000']
      // Without replicas the other two would serve no more.
      const alone = ['--cluster-require-full-coverage', 'no']
      const found = ['--cluster-announce-bus-port', `${gate.port}`]
      const service = await startRedis({ args: [...cluster, ...alone, ...found] })
      const client = createClient({ url: service.url }).on('error', () => {})
      await client.connect()
      t.after(async () => {
        client.destroy()
        await service.stop()
      })
      gate.behind.port = Number(new URL(service.url).port) + busDistance
      gate.behind.name = String(await client.sendCommand(['CLUSTER', 'MYID']))
      return { ...gate, client, url: service.url }
    }),
  )
  lonely = nodes[0]!.behind.name
  for (const [n, { client }] of nodes.entries()) {
    const [from, to] = [n * 5_500, n === 2 ? 16_383 : (n + 1) * 5_500 - 1]
    await client.sendCommand(['CLUSTER', 'ADDSLOTSRANGE', `${from}`, `${to}`])
    for (const { url, port } of nodes.slice(n + 1))
      await client.sendCommand(['CLUSTER', 'MEET', '127.0.0.1', new URL(url).port, `${port}`])
  }
  const agrees = async ({ client }: (typeof nodes)[number]) =>
    /cluster_state:ok.*cluster_size:3/s.test(String(await client.sendCommand(['CLUSTER', 'INFO'])))
  while (!(await Promise.all(nodes.map(agrees))).every(Boolean)) await sleep(20)
  return {
    urls: nodes.map(({ url }) => url),
    cut(is) {
      isCut = is
      if (is) for (const { between, near } of pairs) if (isLost(between)) near.destroy()
    },
  }
}
