/** Hono, keyed by API key, with an answer of our own in place of the problem document. */
import { createLimits, limit, memoryStore } from '@sluice/limits'
import { createHonoLimiter } from '@sluice/limits/hono'
import { Hono } from 'hono'

const limits = createLimits({ store: memoryStore({ now: () => Date.UTC(2026, 10, 21, 12) }) })
const app = new Hono()
app.use(
  createHonoLimiter({
    limits,
    rules: [limit('api', '1/s')],
    key: (c) => c.req.header('x-api-key'),
    address: () => '127.0.0.1', // in earnest: the socket's, which is the default under @hono/node-server
    onRefused: (refusal) => new Response(`slow down, ${refusal.subject}`, { status: refusal.status }),
  }),
)
app.get('/', (c) => c.text('hello'))

for (const key of ['k-1', 'k-1', 'k-2']) {
  const answer = await app.request('/', { headers: { 'x-api-key': key } })
  console.log(answer.status, await answer.text())
}

/* prints
200 hello
429 slow down, k-1
200 hello
*/
