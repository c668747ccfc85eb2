/** The refusal of a cursor, which all stores share: a client reads the same fault whatever store answers its list. */
import { SluiceError } from '../errors.ts'

/** Makes the error for a text that no page of this list has answered as its `nextCursor`. */
export function cursorRefusal(): SluiceError {
  return new SluiceError('INVALID_REQUEST', 'The cursor is not one that this list has answered.', {
    errors: [{ path: '/cursor', message: 'must be the nextCursor of an earlier answer' }],
  })
}
