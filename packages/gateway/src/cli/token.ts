/**
 * `sluice token`: signs a token for trying the gateway out, with the secret that its configuration names. This
 * gives no new power: a reader of that secret could sign tokens anyway. With public keys only the issuer can
 * sign, so the command refuses.
 */
import { readDuration } from '../config/quantity.ts'
import { type Arguments, badUsage, type CommandForm, configOption, jsonOption } from './command.ts'
import { exitCodes, Failure, type Io } from './io.ts'

export const form: CommandForm = {
  name: 'token',
  summary: 'A token for trying out, signed with the secret of the configuration.',
  options: {
    tenant: { value: '<id>', text: 'Whose it is; default by default' },
    module: { value: '<id>', text: 'Of which module; default by default' },
    scope: { value: '<scopes>', text: 'Such as "sluice:admin sluice:publish"; none by default' },
    sub: { value: '<id>', text: 'The person, for WebSockets; nobody by default' },
    expires: { value: '<duration>', text: 'When it ends, such as 8h; 1h by default' },
    config: configOption,
    json: jsonOption,
  },
  examples: [
    ['sluice token --tenant acme --module shop', 'To send with: Authorization: Bearer …'],
    ['SLUICE_TOKEN=$(sluice token --scope sluice:admin) sluice pools', 'To ask as an operator'],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const expiresMs = durationOf(read.text('expires') ?? '1h')
  const { loadConfig } = await import('../config/load.ts')
  const path = read.text('config')
  const { auth } = loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  if (auth === undefined) throw new Failure('the configuration names no keys, so no token is needed')
  const { keys, issuer, audience } = auth.jwt
  if (keys.kind !== 'secrets')
    throw new Failure('the configuration names public keys; only the issuer can sign, ask it for a token')

  const now = Math.floor(Date.now() / 1_000)
  const exp = now + Math.floor(expiresMs / 1_000)
  const scope = read.text('scope')
  const sub = read.text('sub')
  const { SignJWT } = await import('jose')
  const token = await new SignJWT({
    iss: issuer,
    aud: audience,
    iat: now,
    exp,
    ...(sub === undefined ? {} : { sub }),
    [auth.claims.tenant]: read.text('tenant') ?? 'default',
    [auth.claims.module]: read.text('module') ?? 'default',
    ...(scope === undefined ? {} : { [auth.claims.scope]: scope }),
  })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(new TextEncoder().encode(keys.secrets[0]))
  const expiresAt = new Date(exp * 1_000).toISOString()
  io.out(read.has('json') ? JSON.stringify({ token, expiresAt }) : token)
  return exitCodes.ok
}

function durationOf(text: string): number {
  let ms = 0
  try {
    ms = readDuration(text)
  } catch {
    // Reported below, together with a secret that is too short.
  }
  if (ms >= 1_000 && ms <= 100 * 365 * 86_400_000) return ms
  throw badUsage(form, `--expires "${text}" is no duration of 1 s or more, such as 8h`)
}
