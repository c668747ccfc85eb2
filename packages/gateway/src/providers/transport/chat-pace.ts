/**
 * Counts recent messages to each chat. Telegram answers 429 both for a bot that is too fast and for one chat that
 * gets too much, and does not say which: a chat that got messages faster than Telegram documents is taken for the
 * cause. Source: https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
 */

/** Telegram's limits: one message a second in a chat, and twenty a minute in a group. */
const secondMs = 1_000
const minuteMs = 60_000
const minuteMax = 20
/** Most chats that are remembered; the one with the oldest last message is forgotten first. */
const chatsMax = 10_000

export class ChatPace {
  /** The last instants of each chat, oldest first, epoch ms: at most one more than a minute may have. */
  readonly #chats = new Map<string, number[]>()

  wrote(chat: string, now: number): void {
    const instants = this.#chats.get(chat) ?? []
    this.#chats.delete(chat)
    this.#chats.set(chat, instants)
    instants.push(now)
    if (instants.length > minuteMax + 1) instants.shift()
    if (this.#chats.size > chatsMax) this.#chats.delete(this.#chats.keys().next().value!)
  }

  /** True when the chat got more messages than it may have. */
  isOver(chat: string, now: number): boolean {
    const instants = this.#chats.get(chat) ?? []
    const since = (ms: number): number => instants.filter((at) => at > now - ms).length
    return since(secondMs) > 1 || since(minuteMs) > minuteMax
  }
}
