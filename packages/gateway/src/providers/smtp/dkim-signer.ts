/** Signs mails of an account with DKIM (RFC 6376): nodemailer computes the signature. */
import { createPrivateKey } from 'node:crypto'
import DKIM from 'nodemailer/lib/dkim'
import type { SmtpAccount } from './smtp-account.ts'

/** Returns the mail with its signature before it. Rejects where the key cannot sign. */
export type DkimSigner = (mail: string) => Promise<string>

/** Headers that DKIM covers: nodemailer's list lacks List-Unsubscribe-Post, which RFC 8058 wants signed. */
const signedHeaders = [
  'From',
  'To',
  'Subject',
  'Date',
  'Message-ID',
  'X-Notification-Id',
  'Auto-Submitted',
  'List-Unsubscribe',
  'List-Unsubscribe-Post',
  'MIME-Version',
  'Content-Type',
  'Content-Transfer-Encoding',
].join(':')

/** A sample mail that is signed to check the key and never sent. */
export const trial = 'From: a@example.com\r\nSubject: trial\r\n\r\ntrial\r\n'

/**
 * Creates the DKIM signer. It rejects where nodemailer would answer a mail without a signature, as it does for a key
 * that it cannot use.
 */
export function createDkimSigner({ dkim }: Pick<SmtpAccount, 'dkim'>): DkimSigner | undefined {
  if (dkim === undefined) return undefined
  const signing = new DKIM({ ...dkim, headerFieldNames: signedHeaders })
  const isUsable = isRsa(dkim.privateKey)
  return async (mail) => {
    if (!isUsable) throw new Error('the DKIM key cannot sign')
    const chunks: Buffer[] = []
    for await (const chunk of signing.sign(mail)) chunks.push(chunk as Buffer)
    const signed = Buffer.concat(chunks).toString('utf8')
    if (!signed.startsWith('DKIM-Signature:')) throw new Error('the DKIM key cannot sign')
    return signed
  }
}

/**
 * Refuses keys other than RSA: nodemailer writes rsa-sha256 into the signature whatever the key is, so an EC key
 * would sign and no receiver could verify it.
 */
function isRsa(pem: string): boolean {
  try {
    return createPrivateKey(pem).asymmetricKeyType === 'rsa'
  } catch {
    return false
  }
}
