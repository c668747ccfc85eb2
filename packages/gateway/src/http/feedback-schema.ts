/** The schemas of feedback: what a caller's own system reports. */
import { type Static, Type } from '@sinclair/typebox'
import { channels } from '../model.ts'
import { feedbackTypes } from '../ports/feedback.ts'
import { instant, oneOf, text } from './schema.ts'

/** Events of one request at most. */
const eventsMax = 1_000

export const feedbackEvent = Type.Object(
  {
    type: oneOf(feedbackTypes),
    notificationId: Type.Optional(text('printable', 256, 'Either this or `providerMessageId`.')),
    providerMessageId: Type.Optional(
      text('printable', 998, 'The provider’s own id of the message, as the timeline shows it.'),
    ),
    at: instant('The instant at which it happened.'),
    permanent: Type.Optional(
      Type.Boolean({ description: 'True for a bounce after which the address reaches nobody.' }),
    ),
    detail: Type.Optional(Type.String({ maxLength: 2_000, description: 'The provider’s own words.' })),
  },
  { additionalProperties: false, $id: 'FeedbackEvent' },
)
export type FeedbackBody = Static<typeof feedbackEvent>

export const feedbackBody = Type.Union(
  [feedbackEvent, Type.Array(feedbackEvent, { minItems: 1, maxItems: eventsMax })],
  { $id: 'FeedbackRequest', description: 'One event, or a list of them.' },
)

export const acceptedFeedback = Type.Object(
  { accepted: Type.Integer({ minimum: 0, description: 'Well-formed events, also of unknown ids.' }) },
  { $id: 'FeedbackAccepted' },
)

export const feedbackParams = Type.Object({
  channel: oneOf(channels),
  account: text('printable', 64, 'The id of an account.'),
})
