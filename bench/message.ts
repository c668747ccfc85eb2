/** The messages that the loads send: what they say, and for whom message number `n` is. */
export const content = {
  subject: 'Your weekly digest is ready',
  text: 'Three people you follow have posted since you were last here. Open the app to see what is new, or change how often we write to you in your settings.',
}

/** Small and reproducible: which recipient a message is for. */
export const scattered = (n: number, among: number): number => (Math.imul(n, 2_654_435_761) >>> 8) % among

export const dataOf = (n: number) => ({ number: n, campaign: 'digest-47', template: 'weekly' })
