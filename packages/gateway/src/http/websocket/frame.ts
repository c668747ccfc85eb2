/**
 * Encodes a text frame of the WebSocket protocol (RFC 6455), head and text in one buffer. A server's frames
 * carry no mask, so one buffer is made for a message and written, as it is, to every connection that gets it.
 */

const textAndFinal = 0x81

export function textFrame(text: string): Buffer {
  const length = Buffer.byteLength(text)
  const headLength = length < 126 ? 2 : length < 65_536 ? 4 : 10
  const frame = Buffer.allocUnsafe(headLength + length)
  frame[0] = textAndFinal
  if (headLength === 2) frame[1] = length
  else if (headLength === 4) {
    frame[1] = 126
    frame.writeUInt16BE(length, 2)
  } else {
    frame[1] = 127
    frame.writeBigUInt64BE(BigInt(length), 2)
  }
  frame.write(text, headLength, 'utf8')
  return frame
}
