/**
 * One-click unsubscribe (RFC 8058): mail programs POST without a question; a recipient who follows the link
 * gets a page with a button, because mail scanners follow links too.
 */
import type { FastifyReply } from 'fastify'
import { conflicted, retryOnConflict } from '../../conflict.ts'
import { SluiceError } from '../../errors.ts'
import type { Feedback } from '../../feedback/feedback.ts'
import type { OptOut, Recipient } from '../../model.ts'
import { hasOptOut, withOptOut } from '../../policy/preferences.ts'
import { type Clock, pseudonymPrefix, type Store, type StoredRecipient } from '../../ports.ts'
import type { RecipientEditor } from '../recipient-editor.ts'
import type { Route } from '../route.ts'
import { tokenParams } from '../schema.ts'
import type { UnsubscribeLinks, Unsubscription } from '../unsubscribe.ts'
import type { UnsubscribeLimits } from '../unsubscribe-limits.ts'

export interface UnsubscribeRoutesOptions {
  readonly links: Pick<UnsubscribeLinks, 'read'>
  readonly editor: RecipientEditor
  readonly limits: UnsubscribeLimits
  /** An unsubscribe is feedback about the mail that has the link. */
  readonly feedback: Pick<Feedback, 'report'>
  readonly store: Pick<Store, 'feedback' | 'recipient'>
  readonly clock: Pick<Clock, 'now'>
}

export function unsubscribeRoutes({
  links,
  editor,
  limits,
  feedback,
  store,
  clock,
}: UnsubscribeRoutesOptions): readonly Route[] {
  function read(params: unknown): Unsubscription {
    const found = links.read((params as { token: string }).token)
    if (found === undefined) throw new SluiceError('NOT_FOUND', 'This link is not valid, or no longer.')
    return found
  }

  /**
   * Opts the recipient out, and reports the unsubscribe of the mail, unless retention has removed that. A recipient who was
   * erased and whom nobody has saved since is opted out under the name that is left: the link brings no id back.
   */
  async function unsubscribe({ tenant, recipient, category, channel, notificationId }: Unsubscription) {
    const optOut: OptOut = { category, channel }
    const end = await retryOnConflict(async () => {
      const [found] = notificationId === undefined ? [] : await store.feedback.reported([notificationId])
      const mail = found?.tenant === tenant ? found : undefined
      const name = mail?.to.id.startsWith(pseudonymPrefix) === true ? mail.to.id : undefined
      function change(before: Recipient | undefined, left: string | undefined): StoredRecipient {
        const erased = left ?? (before === undefined ? name : undefined)
        const after = withOptOut(before ?? { tenant, id: recipient }, optOut)
        return erased === undefined ? after : { ...after, erased }
      }
      const isNamed = mail !== undefined && name === undefined
      const reportedOf = isNamed ? [{ tenant, recipient, notificationId: mail.id }] : []
      try {
        const { erased } = await editor.edit(tenant, recipient, change, reportedOf)
        // Another process may have saved the recipient meanwhile, without what was left.
        if (erased !== undefined && !hasOptOut(await store.recipient(tenant, recipient), optOut))
          return conflicted
      } catch (error) {
        if (error instanceof SluiceError && error.code === 'NOT_FOUND') return conflicted
        throw error
      }
      return mail
    })
    if (end === conflicted)
      throw new SluiceError('STORE_UNAVAILABLE', 'The recipient met too many changes at once. Try again.', {
        retryAfterMs: 1_000,
      })
    const event = { type: 'unsubscribe', at: clock.now(), eventId: 'one-click' } as const
    if (end !== undefined) await feedback.report([{ ...event, notificationId: end.id }], { tenant })
  }

  const page = { description: 'A page for people', type: 'text/html' }
  return [
    {
      method: 'GET',
      path: '/u/:token',
      operation: 'showUnsubscribePage',
      tag: 'Unsubscribe',
      summary: 'Asks whether to unsubscribe; changes nothing',
      access: 'open',
      params: tokenParams,
      answers: { 200: page },
      problems: ['NOT_FOUND'],
      handle(request, reply) {
        const { category, channel } = read(request.params)
        const form = '<form method="post"><button>Unsubscribe</button></form>'
        return sendPage(
          reply,
          'Unsubscribe',
          `<p>No more ${nameOf(channel)} about <b>${escapeHtml(category)}</b>?</p>${form}`,
        )
      },
    },
    {
      method: 'POST',
      path: '/u/:token',
      operation: 'unsubscribe',
      tag: 'Unsubscribe',
      summary: 'Unsubscribes, at once and without another question (RFC 8058)',
      access: 'open',
      params: tokenParams,
      bodyIgnored: true,
      answers: { 200: page },
      problems: ['NOT_FOUND', 'REQUEST_LIMIT_EXCEEDED', 'STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(request, reply) {
        const unsubscription = read(request.params)
        const { tenant, recipient, category, channel } = unsubscription
        // Mail programs repeat uncertain requests: a repeated click costs one read, of the record: another process may have
        // taken the opt-out back.
        if (!hasOptOut(await store.recipient(tenant, recipient), { category, channel })) {
          limits.take(tenant, recipient)
          await unsubscribe(unsubscription)
        }
        return sendPage(
          reply,
          'Unsubscribed',
          `<p>You will get no more ${nameOf(channel)} about <b>${escapeHtml(category)}</b>.</p>`,
        )
      },
    },
  ]
}

const nameOf = (channel: string): string => (channel === 'email' ? 'mail' : `${escapeHtml(channel)} messages`)

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

function sendPage(reply: FastifyReply, title: string, content: string): FastifyReply {
  return reply
    .code(200)
    .headers({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy':
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-robots-tag': 'noindex',
    })
    .send(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:30rem;margin:15vh auto;padding:0 1rem}button{font:inherit;padding:.5rem 1.5rem}</style>
<h1>${title}</h1>
${content}
</html>
`)
}
