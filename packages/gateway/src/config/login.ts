/** Reads the user and the password in the address of an engine. */

/** The rest of a refusal: in an address with a login, a character of the password is most often what does not fit. */
export const loginHint = (address: string): string =>
  address.includes('@') ? '; within a user or a password @ is written %40, / %2F, ? %3F, # %23 and % %25' : ''

/** `user:password`, `:password` of the default user, or a user alone. */
export function readLogin(
  written: string,
): readonly [user?: string | undefined, password?: string | undefined] {
  const colon = written.indexOf(':')
  try {
    const user = decodeURIComponent(colon < 0 ? written : written.slice(0, colon))
    const password = colon < 0 ? '' : decodeURIComponent(written.slice(colon + 1))
    return [user === '' ? undefined : user, password === '' ? undefined : password]
  } catch {
    throw new Error('expected a user and a password in which every % is written %25')
  }
}
