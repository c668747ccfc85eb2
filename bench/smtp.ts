/**
 * How fast and how evenly mails reach a mail server: the time from `send()` to the last byte at the server's socket,
 * at fixed rates and while the event loop is kept busy in turns of 3 ms, and mails a second in a burst. The server
 * is the tests' sink in a process of its own. With `--nodemailer` the same through nodemailer's own pool.
 *
 *     npm run bench -- smtp [--nodemailer] [--connections 8]
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import nodemailer from 'nodemailer'
import type { Message } from '../packages/gateway/src/ports.ts'
import { createSmtpProvider } from '../packages/gateway/src/providers/smtp/adapter.ts'
import { options } from './catalogue.ts'

const { connections, nodemailer: byNodemailer } = options('smtp')
const now = (): number => performance.timeOrigin + performance.now()

const sinkFile = fileURLToPath(new URL('../packages/gateway/test/sinks/smtp.ts', import.meta.url))
const sink = spawn(process.execPath, [sinkFile], { stdio: ['pipe', 'pipe', 'inherit'] })
const answers = createInterface({ input: sink.stdout })[Symbol.asyncIterator]()

async function ask<T>(order?: string): Promise<T> {
  if (order !== undefined) sink.stdin.write(`${order}\n`)
  return JSON.parse((await answers.next()).value as string) as T
}

type Send = (message: Message) => Promise<unknown>

async function openSluice(port: number): Promise<{ send: Send; close(): Promise<void> }> {
  const provider = createSmtpProvider({ connections })
  const account = { id: 'bench', url: `smtp://127.0.0.1:${port}`, options: {} }
  const signal = new AbortController().signal
  await provider.warm!(account)
  return { send: (message) => provider.send(message, account, signal), close: () => provider.close() }
}

async function openNodemailer(port: number): Promise<{ send: Send; close(): Promise<void> }> {
  const pool = nodemailer.createTransport({
    pool: true,
    host: '127.0.0.1',
    port,
    ignoreTLS: true,
    maxConnections: connections,
    maxMessages: Number.POSITIVE_INFINITY,
  })
  const from = 'Sluice <notifications@localhost>'
  return {
    send: ({ id, to, content }) =>
      pool.sendMail({ from, to: to.email!, ...content, headers: { 'X-Notification-Id': id } }),
    close: async () => pool.close(),
  }
}

let made = 0
function someMail(): Message {
  made += 1
  return {
    id: `01BENCH${made}`,
    tenant: 'acme',
    channel: 'email',
    category: 'product',
    to: { id: 'user-1', email: `user-${made}@example.test` },
    content: {
      subject: `Hello ${made}`,
      text: 'Hello there,\nthis is a text of moderate length, with some words in it.\n'.repeat(5),
      html: '<p>Hello <b>there</b>, some words in it.</p>\n'.repeat(5),
    },
    attempt: 1,
  }
}

/** Sends `count` mails evenly and prints how long each took to arrive. */
async function pace(what: string, send: Send, perSecond: number, count: number): Promise<void> {
  await ask('clear')
  const sentAt = new Map<string, number>()
  const sending: Promise<unknown>[] = []
  const start = now()
  while (sending.length < count) {
    const due = Math.min(count, Math.floor(((now() - start) * perSecond) / 1000) + 1)
    while (sending.length < due) {
      const mail = someMail()
      sentAt.set(mail.id, now())
      sending.push(send(mail))
    }
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(sending)
  const { mails } = await ask<{ mails: { at: number; raw: string }[] }>('dump')
  const tookMs = mails
    .map(({ at, raw }) => at - sentAt.get(/^X-Notification-Id: (\S+)/im.exec(raw)![1]!)!)
    .sort((a, b) => a - b)
  const at = (share: number): string =>
    tookMs[Math.min(tookMs.length - 1, Math.floor(tookMs.length * share))]!.toFixed(2)
  console.log(`${what.padEnd(34)} p50 ${at(0.5)}  p90 ${at(0.9)}  p99 ${at(0.99)}  max ${at(1)} ms`)
}

async function burst(send: Send, count: number): Promise<void> {
  await ask('clear')
  const start = now()
  await Promise.all(Array.from({ length: count }, () => send(someMail())))
  console.log(`burst of ${count}`.padEnd(34), Math.round((count / (now() - start)) * 1000), 'mails/s')
}

/** Keeps the event loop busy in turns of this length until the returned function is called. */
function keepBusy(turnMs: number): () => void {
  let stopped = false
  const spin = (): void => {
    const end = performance.now() + turnMs
    while (performance.now() < end) {}
    if (!stopped) setImmediate(spin)
  }
  spin()
  return () => {
    stopped = true
  }
}

const { port } = await ask<{ port: number }>()
const { send, close } = await (byNodemailer ? openNodemailer(port) : openSluice(port))
console.log(`${byNodemailer ? 'nodemailer’s pool' : 'sluice'}, ${connections} connections`)
await pace('(warming up)', send, 500, 1_000)
for (const perSecond of [100, 500, 1_000]) await pace(`${perSecond}/s`, send, perSecond, perSecond * 3)
const stop = keepBusy(3)
await pace('100/s beside turns of 3 ms', send, 100, 300)
stop()
for (let round = 0; round < 3; round += 1) await burst(send, 4_000)
await close()
sink.stdin.write('stop\n')
