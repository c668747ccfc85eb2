/** Decodes the changes of a change log for the writer. Every method reads the next value and advances past it. */
import type { Channel, Job, JobStatus, Refusal } from '../../../model.ts'
import type { DigestWrite } from '../../../ports.ts'
import type { InParts } from '../tables/parts.ts'
import { ByteReader } from './bytes.ts'
import type {
  ChangeLog,
  ContentCount,
  ShortAnswer,
  ShortContent,
  ShortJobWrite,
  ShortMove,
  ShortPart,
} from './change-log.ts'
import { digestKinds, unchecked } from './change-log.ts'
import { takeLong, takeShort } from './row-bytes.ts'
import type { LongRow, ShortRow } from './rows.ts'

export class Decoder {
  readonly #reader = new ByteReader()

  /** Moves to the start of the change with this number. */
  load({ bytes, ends }: ChangeLog, change: number): void {
    this.#reader.load(bytes, change === 0 ? 0 : ends[change - 1]!)
  }

  number(): number {
    return this.#reader.number()
  }

  text(): string {
    return this.#reader.text()
  }

  longRow(): LongRow {
    return takeLong(this.#reader)
  }

  shortRow(): ShortRow {
    return takeShort(this.#reader)
  }

  move(): ShortMove {
    return {
      id: this.text(),
      tenant: this.text(),
      before: {
        status: this.number(),
        revision: this.number(),
        isApart: this.number() === 1,
        dueAt: this.number(),
      },
      short: this.shortRow(),
      long: this.number() === 1 ? this.longRow() : undefined,
      content: this.count(),
    }
  }

  count(): ContentCount {
    return { own: this.#reader.number(), shared: this.#reader.nullableText() }
  }

  content(): ShortContent {
    return {
      id: this.text(),
      tenant: this.text(),
      bytes: this.number(),
      parts: this.#parts(),
      body: this.#reader.textBytes(),
    }
  }

  part(): ShortPart {
    return { key: this.number(), number: this.number(), body: this.#reader.textBytes() }
  }

  #parts(): InParts | undefined {
    const key = this.#reader.nullable()
    return key === null ? undefined : { key, count: this.number() }
  }

  digest(): DigestWrite {
    const kind = digestKinds[this.number()]!
    const left = this.number()
    const digest = {
      id: this.text(),
      tenant: this.text(),
      recipient: this.text(),
      channel: this.text() as Channel,
      category: this.text(),
      name: this.text(),
      openedAt: this.number(),
      closesAt: this.number(),
    }
    switch (kind) {
      case 'postpone':
        return left === unchecked ? { kind, digest } : { kind, digest, left }
      case 'close':
        return { kind, digest, left: 0 }
      default:
        return { kind, digest }
    }
  }

  answer(): ShortAnswer {
    return {
      tenant: this.text(),
      module: this.text(),
      method: this.text(),
      path: this.text(),
      key: this.text(),
      createdAt: this.number(),
      body: this.text(),
    }
  }

  job(): ShortJobWrite {
    const status = this.#reader.nullableText() as JobStatus | null
    const taken = this.number()
    const after: Job = {
      id: this.text(),
      tenant: this.text(),
      module: this.text(),
      createdAt: this.number(),
      status: this.text() as JobStatus,
      total: this.number(),
      taken: this.number(),
      refused: JSON.parse(this.text()) as readonly Refusal[],
      ...this.#jobSize(),
    }
    const before = status === null ? undefined : { status, taken }
    return { before, after, parts: this.#parts(), work: this.#reader.textBytes() }
  }

  #jobSize(): Pick<Job, 'shared' | 'bytes'> {
    const id = this.#reader.nullableText()
    const shared = { id: id ?? '', bytes: this.number() }
    const bytes = this.#reader.nullable()
    return { ...(id === null ? {} : { shared }), ...(bytes === null ? {} : { bytes }) }
  }
}
