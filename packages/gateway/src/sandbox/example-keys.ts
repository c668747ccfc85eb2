/**
 * Credentials that prove nothing outside of the sandbox: the private keys that RFC 7517 (appendix A.2) and RFC 8291
 * (section 5) publish as examples. A call that is signed with one, or encrypted for one, is really verified; for
 * other keys the sandbox checks the form alone.
 */
import { createECDH, createPrivateKey, createPublicKey } from 'node:crypto'

const es256 = createPrivateKey({
  format: 'jwk',
  key: {
    kty: 'EC',
    crv: 'P-256',
    x: 'MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4',
    y: '4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM',
    d: '870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE',
  },
})

const rs256 = createPrivateKey({
  format: 'jwk',
  key: {
    kty: 'RSA',
    e: 'AQAB',
    n: '0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw',
    d: 'X4cTteJY_gn4FYPsXB8rdXix5vwsg1FLN5E3EaG6RJoVH-HLLKD9M7dx5oo7GURknchnrRweUkC7hT5fJLM0WbFAKNLWY2vv7B6NqXSzUvxT0_YSfqijwp3RTzlBaCxWp4doFk5N2o8Gy_nHNKroADIkJ46pRUohsXywbReAdYaMwFs9tv8d_cPVY3i07a3t8MN6TNwm0dSawm9v47UiCl3Sk5ZiG7xojPLu4sbg1U2jx4IBTNBznbJSzFHK66jT8bgkuqsk0GjskDJk19Z4qwjwbsnn4j2WBii3RL-Us2lGVkY8fkFzme1z0HbIkfz0Y6mqnOYtqc0X4jfcKoAC8Q',
    p: '83i-7IvMGXoMXCskv73TKr8637FiO7Z27zv8oj6pbWUQyLPQBQxtPVnwD20R-60eTDmD2ujnMt5PoqMrm8RfmNhVWDtjjMmCMjOpSXicFHj7XOuVIYQyqVWlWEh6dN36GVZYk93N8Bc9vY41xy8B9RzzOGVQzXvNEvn7O0nVbfs',
    q: '3dfOR9cuYq-0S-mkFLzgItgMEfFzB2q3hWehMuG0oCuqnb3vobLyumqjVZQO1dIrdwgTnCdpYzBcOfW5r370AFXjiWft_NGEiovonizhKpo9VVS78TzFgxkIdrecRezsZ-1kYd_s1qDbxtkDEgfAITAG9LUnADun4vIcb6yelxk',
    dp: 'G4sPXkc6Ya9y8oJW9_ILj4xuppu0lzi_H7VTkS8xj5SdX3coE0oimYwxIi2emTAue0UOa5dpgFGyBJ4c8tQ2VF402XRugKDTP8akYhFo5tAA77Qe_NmtuYZc3C3m3I24G2GvR5sSDxUyAN2zq8Lfn9EUms6rY3Ob8YeiKkTiBj0',
    dq: 's9lAH9fggBsoFR8Oac2R_E2gw282rT2kGOAhvIllETE1efrA6huUUvMfBcMpn8lqeW6vzznYY5SSQF7pMdC_agI3nG8Ibp1BUb0JUiraRNqUfLhcQb_d9GF4Dh7e74WbRsobRonujTYN1xCaP6TO61jvWrX-L18txXw494Q_cgk',
    qi: 'GyM_p6JrXySiz1toFgKbWV-JdI3jQ4ypu9rbMWx3rQJBfmt0FoYzgUIZEVFEcOqwemRN81zoDAaa-Bk0KWNGDjJHZDdDmFhW3AN7lI-puxk_mHZGJ11rxyR8O55XLSe3SPmRfKwZI6yU24ZxvQKFYItdldUKGzO6Ia6zTKhAVRU',
  },
})

const pemOf = (key: typeof es256): string => String(key.export({ type: 'pkcs8', format: 'pem' }))

/** An account at APNs whose tokens are verified. */
export const apnsExample = {
  keyId: 'RFC7517ES2',
  teamId: 'SANDBOXABC',
  privateKey: pemOf(es256),
  publicKey: createPublicKey(es256),
} as const

/** A service account at Google whose assertions are verified. */
export const fcmExample = {
  keyId: 'rfc7517',
  publicKey: createPublicKey(rs256),
  /** The file of the service account as Google would make it, for the sandbox at this address. */
  serviceAccount: (origin: string, project = 'sandbox') => ({
    type: 'service_account',
    project_id: project,
    private_key_id: 'rfc7517',
    private_key: pemOf(rs256),
    client_email: `sluice@${project}.iam.gserviceaccount.com`,
    token_uri: `${origin}/token`,
  }),
} as const

/** The browser of RFC 8291: messages encrypted for it are decrypted. */
const browser = createECDH('prime256v1')
browser.setPrivateKey(Buffer.from('q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94', 'base64url'))
const browserAuth = 'BTBZMqHH6r4Tts7J_aSIgg'
export const webPushExample = {
  browser,
  auth: browserAuth,
  /** The subscription as a browser gives it, with a push service at this address. */
  subscription: (origin: string, name = 'rfc8291') => ({
    endpoint: `${origin}/push/${name}`,
    keys: { p256dh: browser.getPublicKey('base64url'), auth: browserAuth },
  }),
} as const
