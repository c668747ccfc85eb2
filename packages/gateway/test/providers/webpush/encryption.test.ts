import assert from 'node:assert/strict'
import { createECDH } from 'node:crypto'
import { it } from 'node:test'
import { decrypt } from '../../../src/providers/webpush/emulator.ts'
import { encrypt, plainBytesMax } from '../../../src/providers/webpush/encryption.ts'
import { webPushExample } from '../../../src/sandbox/example-keys.ts'

const bytes = (text: string): Buffer => Buffer.from(text, 'base64url')
const keys = {
  p256dh: bytes('BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4'),
  auth: bytes('BTBZMqHH6r4Tts7J_aSIgg'),
}

it('encrypts the example of RFC 8291 (section 5) byte for byte', () => {
  const pair = createECDH('prime256v1')
  pair.setPrivateKey(bytes('yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw'))
  const salt = bytes('DGv6ra1nlYgDCS1FRnbzlw')
  const message = encrypt(Buffer.from('When I grow up, I want to be a watermelon'), keys, { pair, salt })
  assert.equal(
    message.toString('base64url'),
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
  )
  assert.equal(decrypt(message).toString(), 'When I grow up, I want to be a watermelon')
})

it('only the browser can decrypt a payload of any length, and no two ciphertexts are equal', () => {
  assert.deepEqual(webPushExample.browser.getPublicKey(), keys.p256dh)
  for (const length of [0, 1, 15, 16, 17, 1_000, plainBytesMax]) {
    const plain = Buffer.alloc(length, 'ä')
    const message = encrypt(plain, keys)
    assert.deepEqual(decrypt(message), plain)
    assert.notDeepEqual(encrypt(plain, keys), message)
    message[message.length - 1]! ^= 1
    assert.throws(() => decrypt(message))
  }
  assert.equal(encrypt(Buffer.alloc(plainBytesMax), keys).length, 4_096)
})

it('refuses a key that is not a point of the curve', () => {
  assert.throws(() => encrypt(Buffer.from('x'), { ...keys, p256dh: Buffer.alloc(65, 4) }))
})
