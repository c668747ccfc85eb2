/** Composite keys of the in-memory store as strings. */
import type { Digest } from '../../model.ts'
import type { AnswerKey } from '../../ports.ts'

export type Group = Pick<Digest, 'tenant' | 'recipient' | 'channel' | 'category' | 'name'>

export const keyOf = (...parts: readonly string[]): string => parts.join('\n')
export const groupKey = (of: Group): string =>
  keyOf(of.tenant, of.recipient, of.channel, of.category, of.name)
export const answerKey = (of: AnswerKey): string => keyOf(of.tenant, of.module, of.method, of.path, of.key)
