/** The queue of newcomers that are held up, over a server that answers each question after a while. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createHeldUpQueues } from '../../../../src/adapters/state/redis/held-up-queues.ts'
import { HeldUpError } from '../../../../src/errors.ts'

const clock = { monotonic: () => performance.now() }
const soon = () => performance.now() + 20_000

/** A server of one subject that notes whom it lets in; questions arrive in the order in which they were sent. */
function openServer(answersAfterMs = 2) {
  const asked: string[] = []
  const letIn: string[] = []
  let isPaused = false
  return {
    asked,
    letIn,
    setPaused: (is: boolean) => {
      isPaused = is
    },
    question: (id: string) => async () => {
      asked.push(id)
      const reply = isPaused ? ['paused'] : ['ok', id]
      if (!isPaused) letIn.push(id)
      if (answersAfterMs > 0) await sleep(answersAfterMs)
      return reply
    },
  }
}

it('lets nobody overtake one that is held up, whenever pauses begin and end', async () => {
  const queues = createHeldUpQueues(clock)
  const server = openServer()
  const behind = new Map<string, readonly string[]>()
  const heldUp = new Set<string>()
  const works: Promise<unknown>[] = []
  server.setPaused(true)
  for (let index = 0; index < 400; index += 1) {
    const id = String(index)
    behind.set(id, [...heldUp])
    if (heldUp.size > 0) heldUp.add(id)
    const ask = async () => {
      const reply = await server.question(id)()
      if (reply[0] === 'paused') heldUp.add(id)
      else heldUp.delete(id)
      return reply
    }
    works.push(queues.ask('ada', soon(), ask))
    // Pauses of some 7 to 28 ms, while a newcomer comes each millisecond.
    if (index % 7 === 0) server.setPaused(index % 5 !== 0)
    await sleep(1)
  }
  server.setPaused(false)
  await Promise.all(works)
  const order = new Map(server.letIn.map((id, index) => [id, index]))
  assert.equal(order.size, behind.size)
  for (const [id, others] of behind)
    for (const other of others) assert.ok(order.get(other)! < order.get(id)!, `${id} before ${other}`)
  assert.ok([...behind.values()].filter((others) => others.length > 0).length > 100)
})

it('asks for the first of a queue alone, and for all others in one turn', async () => {
  const queues = createHeldUpQueues(clock)
  const server = openServer(20)
  server.setPaused(true)
  const ids = ['a', 'b', 'c', 'd']
  const works = [queues.ask('ada', soon(), server.question('a'))]
  await sleep(30)
  for (const id of ids.slice(1)) works.push(queues.ask('ada', soon(), server.question(id)))
  await sleep(100)
  assert.deepEqual([...new Set(server.asked)], ['a'])
  const tries = server.asked.length
  server.setPaused(false)
  await Promise.all(works)
  assert.deepEqual(server.asked.slice(tries).slice(-ids.length), ids)
  assert.equal(server.asked.filter((id) => id !== 'a').length, 3)
})

it('gives up at the instant of each, and goes on with the next one', async () => {
  const queues = createHeldUpQueues(clock)
  const server = openServer()
  server.setPaused(true)
  const first = queues.ask('ada', performance.now() + 60, server.question('a'))
  await sleep(10)
  const brief = queues.ask('ada', performance.now() + 20, server.question('b'))
  const last = queues.ask('ada', soon(), server.question('c'))
  await Promise.all([first, brief].map((work) => assert.rejects(work, HeldUpError)))
  assert.ok(!server.asked.includes('b'))
  server.setPaused(false)
  await last
  assert.deepEqual(server.letIn, ['c'])
})

it('keeps the order where the rules are replaced', async () => {
  const queues = createHeldUpQueues(clock)
  const server = openServer(0)
  let generation = 0
  const ask = async (id: string): Promise<unknown> => {
    const begun = generation
    const question = server.question(id)
    const reply = await queues
      .ask('ada', soon(), async () => (begun === generation ? question() : ['replaced']))
      .then(String)
    return reply === 'replaced' ? ask(id) : reply
  }
  server.setPaused(true)
  const works: Promise<unknown>[] = []
  for (const id of ['a', 'b', 'c']) {
    works.push(ask(id))
    await sleep(10)
  }
  generation += 1
  queues.renew()
  await new Promise((resolve) => setImmediate(resolve))
  works.push(ask('d'))
  await sleep(100)
  server.setPaused(false)
  await Promise.all(works)
  assert.equal(server.letIn.join(''), 'abcd')
})

it('goes on behind a question that fails, and holds nobody up in another subject', async () => {
  const queues = createHeldUpQueues(clock)
  const server = openServer()
  server.setPaused(true)
  let tries = 0
  const fails = queues.ask('ada', soon(), async () => {
    tries += 1
    if (tries === 3) throw new Error('the server is away')
    return ['paused']
  })
  const next = queues.ask('ada', soon(), server.question('b'))
  await queues.ask('bob', soon(), async () => ['ok'])
  await assert.rejects(fails, /away/)
  server.setPaused(false)
  await next
  assert.deepEqual(server.letIn, ['b'])
  // The queue has ended: the next one asks at once.
  await queues.ask('ada', soon(), server.question('c'))
  assert.deepEqual(server.letIn, ['b', 'c'])
})
