/** Schemas of requests and answers about the policy. */
import { type Static, Type } from '@sinclair/typebox'
import { decisionSchema } from './answer-schema.ts'
import { instant, notificationBody, policyBody, text } from './schema.ts'

export const previewBody = Type.Object(
  {
    policy: Type.Optional(policyBody),
    notification: Type.Optional(notificationBody),
    notificationId: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, description: 'In place of `notification`: one on record.' }),
    ),
    at: Type.Optional(instant('The instant of the second decision. Default now.')),
    tenant: Type.Optional(text('printable', 256, "Whose limits count. Default the caller's tenant.")),
  },
  { additionalProperties: false, $id: 'PolicyPreviewRequest' },
)
export type PreviewBody = Static<typeof previewBody>

export const previewSchema = Type.Object(
  // biome-ignore lint/suspicious/noThenProperty: the name of the field in the contract; it is no function
  { now: decisionSchema, then: decisionSchema },
  { $id: 'PolicyPreview' },
)
