/** The canonical forms of DKIM, relaxed/relaxed (RFC 6376, 3.4), written for the tests from the RFC alone. */
import { createHash } from 'node:crypto'

/** `bh` of a mail that was received (latin1, one letter a byte). */
export function relaxedBodyHash(raw: string): string {
  const body = raw.slice(raw.indexOf('\r\n\r\n') + 4)
  const lines = body.split('\r\n').map((line) => line.replace(/[ \t]+/g, ' ').replace(/ $/, ''))
  while (lines.length > 0 && lines.at(-1) === '') lines.pop()
  const canonical = lines.map((line) => `${line}\r\n`).join('')
  return createHash('sha256').update(Buffer.from(canonical, 'latin1')).digest('base64')
}

/** The text that the signature covers: the named headers, last one first where a name repeats, and itself without `b`. */
export function relaxedHeaders(raw: string, names: readonly string[], signature: string): string {
  const fields = raw
    .slice(0, raw.indexOf('\r\n\r\n') + 2)
    .split(/\r\n(?![ \t])/)
    .filter((field) => field !== '')
  const relaxed = (name: string, value: string): string =>
    `${name.toLowerCase()}:${value
      .replace(/\r\n/g, '')
      .replace(/[ \t]+/g, ' ')
      .trim()}`
  const signed: string[] = []
  for (const name of names) {
    const at = fields.findLastIndex((field) => field.toLowerCase().startsWith(`${name.toLowerCase()}:`))
    if (at < 0) continue
    const [field] = fields.splice(at, 1)
    signed.push(`${relaxed(name, field!.slice(name.length + 1))}\r\n`)
  }
  return signed.join('') + relaxed('dkim-signature', signature.replace(/([;\s]b=)[^;]*/, '$1'))
}
