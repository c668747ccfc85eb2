/** A limit in front of an Express 5 route: three requests a minute for each address. */
import type { AddressInfo } from 'node:net'
import { createLimits, limit, memoryStore } from '@sluice/limits'
import { createExpressLimiter } from '@sluice/limits/express'
import express from 'express'

const limits = createLimits({ store: memoryStore({ now: () => Date.UTC(2026, 10, 21, 12) }) })
const app = express()
app.use(createExpressLimiter({ limits, rules: [limit('api', '3/min')] }))
app.get('/', (_request, response) => {
  response.send('hello')
})

const server = app.listen(0, '127.0.0.1')
await new Promise((resolve) => server.once('listening', resolve))
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
for (let call = 1; call <= 4; call += 1) {
  const { status, headers } = await fetch(origin)
  console.log(status, headers.get('ratelimit-policy'), headers.get('ratelimit'), headers.get('retry-after'))
}
server.closeAllConnections()
server.close()

/* prints
200 "api";q=3;w=60 "api";r=2;t=60 null
200 "api";q=3;w=60 "api";r=1;t=60 null
200 "api";q=3;w=60 "api";r=0;t=60 null
429 "api";q=3;w=60 "api";r=0;t=60 60
*/
