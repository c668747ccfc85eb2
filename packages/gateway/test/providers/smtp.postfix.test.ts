/** Mail through a real mail server into a real mailbox: what Postfix takes, refuses, and makes of every byte. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { type ReceivedMail, readMaildir } from '../../../../scripts/services/postfix.ts'
import { someMessage } from '../../src/conformance/provider.ts'
import type { Message } from '../../src/ports.ts'
import { createSmtpProvider } from '../../src/providers/smtp/adapter.ts'

const signal = new AbortController().signal
const account = {
  id: 'postfix',
  url: process.env.SLUICE_TEST_SMTP ?? '',
  options: { from: 'Shop <shop@example.test>' },
}

async function withProvider(
  body: (
    send: (patch: Partial<Message>) => ReturnType<ReturnType<typeof createSmtpProvider>['send']>,
  ) => Promise<void>,
) {
  const provider = createSmtpProvider()
  try {
    await body((patch) => provider.send(someMessage('email', patch), account, signal))
  } finally {
    await provider.close()
  }
}

/** The mails of these notifications, once all of them lie in the mailbox. */
async function delivered(ids: readonly string[]): Promise<readonly ReceivedMail[]> {
  const deadline = performance.now() + 30_000
  for (;;) {
    const mails = readMaildir(process.env.SLUICE_TEST_MAILDIR!)
    const found = ids.map((id) => mails.filter(({ raw }) => raw.includes(`\nX-Notification-Id: ${id}\n`)))
    if (found.every((each) => each.length > 0)) {
      for (const each of found) assert.equal(each.length, 1)
      return found.flat()
    }
    assert.ok(performance.now() < deadline, `not all of ${ids.length} mails came`)
    await wait(50)
  }
}

test('three hundred mails reach the mailbox, each once and as it was written', needs('postfix'), async () => {
  await withProvider(async (send) => {
    const run = Date.now().toString(36)
    const ids = Array.from({ length: 300 }, (_, index) => `01POSTFIX${run}N${index}`)
    const results = await Promise.all(
      ids.map((id, index) =>
        send({
          id,
          to: { id: 'u', email: `user-${index}@mailbox.test` },
          content: {
            subject: `Nº ${index}`,
            text: `.${index}\n..\n.\nMany greetings, or in short: Grüße\n`,
            html: `<p>${index}</p>`,
          },
        }),
      ),
    )
    for (const result of results) {
      assert.equal(result.outcome, 'delivered')
      assert.match((result as { providerMessageId: string }).providerMessageId, /^\w{6,}$/)
    }
    for (const [index, { deliveredTo, raw }] of (await delivered(ids)).entries()) {
      assert.equal(deliveredTo, `user-${index}@mailbox.test`)
      assert.ok(raw.includes(`\nMessage-ID: <${ids[index]}@example.test>\n`))
      assert.ok(raw.includes(`\n\n.${index}\n..\n.\nMany greetings, or in short: Gr=C3=BC=C3=9Fe\n`), raw)
    }
  })
})

test('Postfix’s refusals are classified, and leave the connection usable', needs('postfix'), async () => {
  await withProvider(async (send) => {
    const to = (name: string) => ({ to: { id: 'u', email: `${name}@example.test` } })
    for (let round = 0; round < 3; round += 1) {
      const unknown = await send(to('unknown'))
      assert.equal(unknown.outcome === 'rejected' && unknown.invalidAddress, true, JSON.stringify(unknown))
      for (const name of ['full', 'greylisted']) {
        const later = await send(to(name))
        assert.deepEqual(
          later.outcome === 'failed' && [later.recipientFault, later.retry],
          [true, 'greylisting'],
          JSON.stringify(later),
        )
      }
      // It relays nothing for us: the account's fault, whoever is written to.
      const relayed = await send({ to: { id: 'u', email: 'ada@elsewhere.example' } })
      assert.equal(relayed.outcome, 'failed')
      assert.match(relayed.detail ?? '', /^554 5\.7\.1 .*Relay access denied/)
      assert.equal('recipientFault' in relayed, false)
      assert.equal((await send(to('ada'))).outcome, 'delivered')
    }
  })
})

test('a sender that Postfix refuses at the recipient is the account’s fault', needs('postfix'), async () => {
  for (const [from, said] of [
    ['forbidden@example.test', /^554 5\.7\.1 .*Sender address rejected/],
    ['foreign@example.test', /^553 5\.7\.1 .*not owned by user/],
  ] as const) {
    const provider = createSmtpProvider()
    const message = someMessage('email', { to: { id: 'u', email: 'ada@example.test' } })
    const result = await provider.send(message, { ...account, options: { from } }, signal)
    await provider.close()
    assert.equal(result.outcome, 'failed')
    assert.match(result.detail ?? '', said)
    assert.equal('recipientFault' in result, false)
  }
})

test('an address beyond ASCII reaches its mailbox', needs('postfix'), async () => {
  await withProvider(async (send) => {
    const id = `01POSTFIXUTF${Date.now().toString(36)}`
    assert.equal((await send({ id, to: { id: 'u', email: 'jürgen@mailbox.test' } })).outcome, 'delivered')
    assert.equal((await delivered([id]))[0]!.deliveredTo, 'jürgen@mailbox.test')
  })
})
