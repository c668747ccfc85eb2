/**
 * A real mail server: Postfix with a configuration, queue and port of its own, beside any that the system has.
 * It takes mail for example.test and mailbox.test, puts every message into one Maildir, and sends nothing on.
 */
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { chown } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { EngineMissing, ensureInstalled, findCommand } from './install.ts'
import { firstWords, freePort } from './port.ts'
import { type Service, type StartOptions, startService } from './service.ts'

const execute = promisify(execFile)

/** One message as it lies in the mailbox. */
export interface ReceivedMail {
  /** The address of the SMTP dialogue, as the server recorded it. */
  readonly deliveredTo: string
  /** All bytes of the file, the server's own trace headers on top. */
  readonly raw: string
}

/**
 * Starts the mail server. `unknown@` is refused for good (550 5.1.1), `full@` for now (452 4.2.2), `greylisted@`
 * with 450 4.7.1, and so are the senders `forbidden@` and `foreign@` for good; every other address of the two domains is delivered to the Maildir `SLUICE_TEST_MAILDIR`.
 */
export async function startMailServer(options: StartOptions = {}): Promise<Service> {
  await ensureInstalled({
    engine: 'postfix',
    commands: ['postfix', 'postconf'],
    packages: ['postfix'],
    answers: 'postfix postfix/main_mailer_type select No configuration\n',
  })
  if (process.getuid?.() !== 0) {
    throw new EngineMissing(
      'postfix is started by root only. Run this as root, or name a mail server that delivers to a Maildir ' +
        'in SLUICE_TEST_SMTP and SLUICE_TEST_MAILDIR.',
    )
  }
  return startService('postfix', options, async ({ folder, adopt, until }) => {
    const port = await freePort()
    await writeConfiguration(folder, port)
    await execute(findCommand('postfix')!, ['-c', join(folder, 'etc'), 'start'])
    adopt(Number(readFileSync(join(folder, 'queue/pid/master.pid'), 'utf8')))
    await until('its greeting', async () => (await firstWords(port))?.startsWith('220') ?? false)
    const url = `smtp://127.0.0.1:${port}`
    return { url, env: { SLUICE_TEST_SMTP: url, SLUICE_TEST_MAILDIR: join(folder, 'mail/inbox') } }
  })
}

/** Every message in a Maildir, oldest first. */
export function readMaildir(maildir: string): ReceivedMail[] {
  let names: string[] = []
  try {
    names = readdirSync(join(maildir, 'new')).sort()
  } catch {} // made with the first delivery
  return names.map((name) => {
    const raw = readFileSync(join(maildir, 'new', name), 'utf8')
    return { deliveredTo: /^Delivered-To: (.*)$/m.exec(raw)?.[1] ?? '', raw }
  })
}

async function writeConfiguration(folder: string, port: number): Promise<void> {
  chmodSync(folder, 0o755) // the server's own users pass through it
  for (const name of ['etc', 'queue', 'data', 'mail']) mkdirSync(join(folder, name), { recursive: true })
  await chown(join(folder, 'data'), await userId('postfix'), 0)
  await chown(join(folder, 'mail'), nobody, nobody)
  writeFileSync(join(folder, 'etc/main.cf'), await mainConfiguration(folder))
  writeFileSync(join(folder, 'etc/master.cf'), masterConfiguration(port))
  writeFileSync(join(folder, 'etc/access'), access)
  writeFileSync(join(folder, 'etc/senders'), senders)
}

const nobody = 65_534

async function userId(name: string): Promise<number> {
  return Number((await execute('id', ['-u', name])).stdout)
}

const access = `
/^unknown@/     550 5.1.1 No such mailbox
/^full@/        452 4.2.2 Mailbox full
/^greylisted@/  450 4.7.1 Greylisted, please try again later
`

/** Looked at when the recipient is named (smtpd_delay_reject), as usual. */
const senders = `
/^forbidden@/   REJECT
/^foreign@/     553 5.7.1 not owned by user ada
`

/** postconf(5). The places of programs come from the installed package; everything else is ours. */
async function mainConfiguration(folder: string): Promise<string> {
  const places = [
    'command_directory',
    'daemon_directory',
    'meta_directory',
    'shlib_directory',
    'setgid_group',
  ]
  const { stdout } = await execute(findCommand('postconf')!, ['-d', ...places])
  return `${stdout}
compatibility_level = 3.6
queue_directory = ${folder}/queue
data_directory = ${folder}/data
maillog_file = ${folder}/postfix.log
maillog_file_prefixes = ${folder}
myhostname = mail.example.test
mydestination =
mynetworks =
local_header_rewrite_clients =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtputf8_enable = yes
virtual_mailbox_domains = example.test mailbox.test
virtual_mailbox_base = ${folder}/mail
virtual_mailbox_maps = static:inbox/
virtual_minimum_uid = 100
virtual_uid_maps = static:${nobody}
virtual_gid_maps = static:${nobody}
virtual_mailbox_limit = 0
smtpd_relay_restrictions = reject_unauth_destination
smtpd_sender_restrictions = check_sender_access regexp:${folder}/etc/senders
smtpd_recipient_restrictions = check_recipient_access regexp:${folder}/etc/access
default_transport = error:5.7.1 this server delivers to its own mailboxes only
relay_transport = error:5.7.1 this server delivers to its own mailboxes only
smtpd_peername_lookup = no
smtpd_client_connection_count_limit = 0
in_flow_delay = 0
biff = no
alias_maps =
alias_database =
append_dot_mydomain = no
`
}

/** master(5), without chroot, so that nothing has to be copied into the queue's folder. */
function masterConfiguration(port: number): string {
  return `
127.0.0.1:${port} inet n - n - - smtpd
postlog   unix-dgram n - n - 1 postlogd
cleanup   unix n - n - 0 cleanup
qmgr      unix n - n 300 1 qmgr
rewrite   unix - - n - - trivial-rewrite
bounce    unix - - n - 0 bounce
defer     unix - - n - 0 bounce
trace     unix - - n - 0 bounce
verify    unix - - n - 1 verify
flush     unix n - n 1000? 0 flush
proxymap  unix - - n - - proxymap
error     unix - - n - - error
retry     unix - - n - - error
discard   unix - - n - - discard
virtual   unix - n n - - virtual
anvil     unix - - n - 1 anvil
scache    unix - - n - 1 scache
`
}
