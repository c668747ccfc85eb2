/** The least that a route with the schema of POST /notifications does: it is checked, and answered by a constant. */
import Fastify from 'fastify'
import { notificationBody } from '../../packages/gateway/src/http/schema.ts'
import { forms } from '../../packages/gateway/src/http/syntax.ts'
import type { Contestant } from '../host.ts'

export async function open(): Promise<Contestant> {
  const formats = Object.fromEntries(Object.entries(forms).map(([name, form]) => [name, form.check]))
  const app = Fastify({
    logger: false,
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false, allowUnionTypes: true, formats } },
  })
  const answer = { status: 'accepted', id: '00000000-0000-4000-8000-000000000000' }
  const text = { type: 'string' }
  const response = { 202: { type: 'object', properties: { status: text, id: text } } }
  app.post(
    '/api/v1/notifications',
    { schema: { body: notificationBody, response } },
    async (_request, reply) => {
      reply.code(202)
      return answer
    },
  )
  await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    port: (app.server.address() as { port: number }).port,
    async close() {
      app.server.closeAllConnections()
      await app.close()
    },
  }
}
