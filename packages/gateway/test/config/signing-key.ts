import { generateKeyPairSync } from 'node:crypto'

/** A key with which mails can be signed, in PEM; short, so that it is made at once. */
export const signingKey = generateKeyPairSync('rsa', { modulusLength: 1_024 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString()
