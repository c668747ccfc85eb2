/** Schemas of requests and answers about replays. */
import { type Static, Type } from '@sinclair/typebox'
import type { JsonObject } from '../model.ts'
import { instant, policyBody, text } from './schema.ts'

export const replayBody = Type.Object(
  {
    from: instant('Requests accepted at this instant or later.'),
    to: instant('Requests accepted before this instant.'),
    policy: policyBody,
    against: Type.Optional(
      Type.Unsafe<JsonObject>({
        type: 'object',
        description: 'The policy that was in force. Default the one in force now.',
      }),
    ),
    tenant: Type.Optional(text('printable', 256, 'Only this tenant. Default all.')),
    sample: Type.Optional(
      Type.Number({ minimum: 0.000001, maximum: 1, description: 'The share of the people. Default 1.' }),
    ),
  },
  { additionalProperties: false, $id: 'ReplayRequest' },
)
export type ReplayBody = Static<typeof replayBody>

export const replaySchema = Type.Object(
  {
    replayId: Type.String(),
    status: Type.Union([Type.Literal('running'), Type.Literal('done'), Type.Literal('failed')]),
    progress: Type.Number({ minimum: 0, maximum: 1 }),
    createdAt: instant('When it was started.'),
    result: Type.Optional(
      Type.Object(
        {},
        { additionalProperties: true, description: 'The comparison, as `sluice replay --json` prints it.' },
      ),
    ),
    detail: Type.Optional(Type.String({ description: 'Says why it failed.' })),
  },
  { $id: 'Replay' },
)
