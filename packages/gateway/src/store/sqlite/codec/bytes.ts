/**
 * Writes plain values as consecutive bytes and reads them back: numbers as eight bytes, texts as UTF-8 after their
 * length. Bytes are transferred to another thread without a copy, while a list of values is copied value by value on
 * either side (1.6 µs a notification to write and 2.2 µs to read, measured in batches of 100).
 */

/** The initial buffer size in bytes; the buffer shrinks to it again after a change that was larger. */
const bytesFirst = 2 ** 16
const numberBytes = 8
/** The maximum number of UTF-8 bytes for one UTF-16 unit. */
const unitBytesMax = 3
const absent = -1

/** Appends values to a buffer. Bytes already written do not move until `cut`. */
export class ByteWriter {
  #bytes = Buffer.allocUnsafeSlow(bytesFirst)
  #view = viewOf(this.#bytes)
  #at = 0

  /** The position of the next value. */
  get at(): number {
    return this.#at
  }

  /** Writes a number; `null` becomes NaN, which no stored number ever is. */
  number(value: number | null): void {
    if (this.#at + numberBytes > this.#bytes.length) this.#grow(numberBytes)
    this.#view.setFloat64(this.#at, value ?? Number.NaN, true)
    this.#at += numberBytes
  }

  /** Writes a text; returns its length in bytes. */
  text(value: string | null): number {
    if (value === null) {
      this.number(absent)
      return 0
    }
    const most = numberBytes + value.length * unitBytesMax
    if (this.#at + most > this.#bytes.length) this.#grow(most)
    const length = this.#bytes.write(value, this.#at + numberBytes)
    this.number(length)
    this.#at += length
    return length
  }

  /** Writes several pieces as one text. */
  pieces(values: readonly (string | Uint8Array)[]): void {
    const begin = this.#at
    this.number(0)
    for (const value of values) {
      const most = typeof value === 'string' ? value.length * unitBytesMax : value.length
      if (this.#at + most > this.#bytes.length) this.#grow(most)
      if (typeof value === 'string') this.#at += this.#bytes.write(value, this.#at)
      else {
        this.#bytes.set(value, this.#at)
        this.#at += value.length
      }
    }
    this.#view.setFloat64(begin, this.#at - begin - numberBytes, true)
  }

  /** Discards the bytes written from the position on. */
  rewind(at: number): void {
    this.#at = at
  }

  /** Returns the written bytes and starts a new buffer. */
  cut(): Uint8Array<ArrayBuffer> {
    const cut = Buffer.allocUnsafeSlow(this.#at)
    this.#bytes.copy(cut, 0, 0, this.#at)
    this.#at = 0
    if (this.#bytes.length > bytesFirst) this.#hold(Buffer.allocUnsafeSlow(bytesFirst))
    return cut
  }

  /** Returns the bytes written from the position on, and discards them. */
  cutFrom(from: number): Uint8Array<ArrayBuffer> {
    if (from === 0) return this.cut()
    const cut = Buffer.allocUnsafeSlow(this.#at - from)
    this.#bytes.copy(cut, 0, from, this.#at)
    this.#at = from
    return cut
  }

  #grow(by: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#bytes.length, this.#at + by))
    this.#bytes.copy(larger, 0, 0, this.#at)
    this.#hold(larger)
  }

  #hold(bytes: Buffer<ArrayBuffer>): void {
    this.#bytes = bytes
    this.#view = viewOf(bytes)
  }
}

/** Reads values that a ByteWriter wrote. Every method reads the next value and advances past it. */
export class ByteReader {
  #loaded: Uint8Array | undefined
  #bytes: Buffer = Buffer.alloc(0)
  #view = viewOf(this.#bytes)
  #at = 0

  load(bytes: Uint8Array, at: number): void {
    if (bytes !== this.#loaded) {
      this.#loaded = bytes
      this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
      this.#view = viewOf(this.#bytes)
    }
    this.#at = at
  }

  number(): number {
    const value = this.#view.getFloat64(this.#at, true)
    this.#at += numberBytes
    return value
  }

  nullable(): number | null {
    const value = this.number()
    return Number.isNaN(value) ? null : value
  }

  text(): string {
    return this.#textOf(this.number())
  }

  /** Reads a text as its UTF-8 bytes. */
  textBytes(): Uint8Array {
    const length = this.number()
    return this.bytes(this.skip(length), length)
  }

  nullableText(): string | null {
    const length = this.number()
    return length === absent ? null : this.#textOf(length)
  }

  #textOf(length: number): string {
    const from = this.skip(length)
    return this.between(from, from + length)
  }

  /** Skips bytes; returns the position where they begin. */
  skip(length: number): number {
    const from = this.#at
    this.#at += length
    return from
  }

  between(from: number, to: number): string {
    return this.#bytes.toString('utf8', from, to)
  }

  bytes(from: number, length: number): Uint8Array {
    return this.#bytes.subarray(from, from + length)
  }
}

function viewOf({ buffer, byteOffset, length }: Buffer): DataView {
  return new DataView(buffer, byteOffset, length)
}
