/** One of several processes that take from the same subjects; it prints what it was answered. */
import process from 'node:process'
import { Redis } from 'ioredis'
import { createLimits, redisStore } from '../../src/index.ts'
import { takerRules } from './redis-rules.ts'

const takes = 5_000
const inFlight = 32
const subjects = 10

const client = new Redis(process.argv[2]!, { enableAutoPipelining: true })
const prefix = process.argv[3]!
const { take } = createLimits({ store: redisStore(client, { prefix, deadlineMs: 60_000 }) })
const answers: [subject: number, instant: number, allowed: 0 | 1, refusedBy: readonly string[]][] = []
let left = takes

async function work(): Promise<void> {
  while (left > 0) {
    left -= 1
    const subject = left % subjects
    const { allowed, firstAt, refusedBy } = await take(`s${subject}`, takerRules)
    answers.push([subject, firstAt, allowed ? 1 : 0, refusedBy])
  }
}

await Promise.all(Array.from({ length: inFlight }, work))
process.stdout.write(JSON.stringify(answers))
client.disconnect()
