import { generateKeyPairSync } from 'node:crypto'

/** A key that signs mails, in PEM; short, so that it is made quickly. */
export const signingKey = generateKeyPairSync('rsa', { modulusLength: 1_024 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString()
