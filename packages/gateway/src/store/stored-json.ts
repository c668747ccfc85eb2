/**
 * Writes values as JSON that PostgreSQL can read again. It takes any escape into a column of JSON; but where it reads a
 * field of one it refuses NUL and halves of characters (lone surrogates), and with the row every page that the row is in.
 * Texts of clients have none of them (http/json.ts); a provider's words may, whole or cut off. Pure.
 */

/** Escapes that `JSON.stringify` writes for such texts alone; a backslash of the text itself may look like one. */
const suspicious = /\\u(?:0000|d[89a-f])/

/** Returns the JSON of a value, with U+FFFD for what PostgreSQL does not read; undefined where there is no JSON for it. */
export function storedJson(value: unknown): string {
  const text = JSON.stringify(value)
  if (text === undefined || !suspicious.test(text)) return text
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'string' ? storedText(each) : each))
}

const storedText = (text: string): string => text.replaceAll('\0', '\u{fffd}').toWellFormed()
