/** Limits by user in Fastify 5, chosen by plan, after the hook that knows who asks. */
import { createLimits, limit, memoryStore } from '@sluice/limits'
import { createFastifyLimiter } from '@sluice/limits/fastify'
import Fastify, { type FastifyRequest } from 'fastify'

const limits = createLimits({ store: memoryStore({ now: () => Date.UTC(2026, 10, 21, 12) }) })
const free = [limit('free', '1/min, 20/day')]
const paid = [limit('paid', '100/min')]

const app = Fastify()
app.addHook('onRequest', async (request) => {
  const id = request.headers.authorization // in earnest: what your authentication found
  if (id !== undefined) Object.assign(request, { user: { id } })
})
const limiter = createFastifyLimiter({
  limits,
  key: 'user',
  rules: (request: FastifyRequest) => (request.headers.authorization === 'ada' ? paid : free),
  skip: (request) => request.url === '/healthz',
})
app.addHook('onRequest', limiter)
app.get('/', async () => 'hello')

const origin = await app.listen({ port: 0, host: '127.0.0.1' })
for (const authorization of ['ada', 'ada', 'bob', 'bob']) {
  const answer = await fetch(origin, { headers: { authorization } })
  console.log(
    authorization,
    answer.status,
    answer.headers.get('ratelimit'),
    (await answer.text()).slice(0, 5),
  )
}
app.server.closeAllConnections()
await app.close()

/* prints
ada 200 "paid";r=99;t=60 hello
ada 200 "paid";r=98;t=60 hello
bob 200 "free-1/min";r=0;t=60, "free-20/day";r=19;t=86400 hello
bob 429 "free-1/min";r=0;t=60, "free-20/day";r=19;t=86400 {"typ
*/
