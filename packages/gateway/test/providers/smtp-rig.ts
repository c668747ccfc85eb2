/** The SMTP provider and a mail server on a real socket, for tests of what is said and of what each reply means. */
import type { TestContext } from 'node:test'
import { someMessage } from '../../src/conformance/provider.ts'
import type { JsonObject } from '../../src/model.ts'
import type { Message } from '../../src/ports.ts'
import { createSmtpProvider, type SmtpOptions } from '../../src/providers/smtp/adapter.ts'
import { createSmtpSink, type SmtpSinkOptions } from '../sinks/smtp.ts'

interface Setting {
  readonly sink?: SmtpSinkOptions
  readonly provider?: SmtpOptions
  readonly account?: JsonObject
  /** Made into the account's url from the sink's. */
  readonly url?: (url: string) => string
}

/** A provider and a mail server on a real socket, both closed with the test. */
export async function connected(
  t: TestContext,
  { sink: sinkOptions = {}, provider: options = {}, account = {}, url }: Setting = {},
) {
  const sink = await createSmtpSink(sinkOptions)
  const provider = createSmtpProvider({ deadlineMs: 3_000, ...options })
  const itsAccount = { id: 'main', url: url?.(sink.url) ?? sink.url, options: account }
  t.after(async () => {
    await provider.close()
    await sink.close()
  })
  const send = (patch: Partial<Message> = {}, signal = new AbortController().signal) =>
    provider.send(someMessage('email', patch), itsAccount, signal)
  return { sink, provider, account: itsAccount, send }
}
