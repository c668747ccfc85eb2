/**
 * The events of the log: every line has one, and a name says for ever the same. docs/reference/log-events.md lists
 * them, and a test holds the two against each other.
 */
export const logEvents = {
  'gateway.started': 'the gateway answers requests',
  'gateway.draining': 'a graceful shutdown has begun',
  'gateway.stopped': 'the gateway has stopped',
  'gateway.error': 'an operation failed and is tried again, or was left out; component names the part',
  'gateway.declared_dead':
    'the registration of this process has ended, as where the others found it silent for too long: it sends nothing more and ends',
  'gateway.other_declared_dead':
    'another gateway over this record was silent for too long: it counts as dead, and the others send what it held',
  'gateway.configuration_differs':
    'another gateway over this record has had another policy or other limits for five minutes',
  'config.loaded': 'the configuration was read',
  'config.reloaded': 'secrets, keys, templates and the policy were read again and are in force',
  'config.refused': 'the configuration that was read again is not in force: everything stays as it was',
  'metrics.listening': 'the metrics are served on a port of their own',
  'log.level': 'the level of the log changed',
  'clock.stepped': 'the wall clock stepped; what waits goes on as before',
  'http.request': 'a request was answered',
  'http.refused': 'a request was refused',
  'http.error': 'a request met an error inside of the gateway',
  'notification.dead': 'a notification became a dead letter',
  'notification.failed': 'a provider rejected a notification for good',
  'notification.suppressed': 'a notification was suppressed',
  'notification.delayed': 'a notification waits',
  'notification.delivered': 'a notification was delivered',
  'notifications.held': 'an operator stopped notifications until an instant',
  'notifications.released': 'the hold of notifications is over',
  'intake.unavailable': 'the brokers of a topic do not answer; its records wait there',
  'intake.available': 'the brokers of a topic answer again',
  'feedback.unknown': 'feedback is about a notification that nobody knows',
  'feedback.refused': 'a call of a webhook was not authentic, or too old',
  'complaints.slowed': 'recipients complain: a category of a tenant departs more slowly',
  'complaints.paused': 'too many recipients complain: a category of a tenant pauses',
  'complaints.resumed': 'a category of a tenant goes on after a pause',
  'complaints.over': 'a category of a tenant departs at its full rate again',
  'dead_letters.summary': 'dead letters wait',
  'account.blocked': 'account blocked by a 429',
  'account.opened': 'account taken out: too many calls failed',
  'account.probe_failed': 'account stays out: its probe failed',
  'account.closed': 'account works again',
  'account.held': 'an operator took an account out until an instant',
  'account.released': 'the hold of an account is over',
  'account.resized': 'calls at once follow the latency',
  'channel.unserved': 'no pool serves this channel: what waited for it are dead letters until one does',
  'tenant.full': 'a tenant reached a bound of what may wait, or left it',
  'store.slow': 'a durable commit took over a second',
  'store.failed': 'a durable commit failed',
  'store.unavailable':
    'the server of the store does not answer: nothing is accepted, and nothing new is sent',
  'store.available': 'the server of the store answers again',
  'store.disk_low': 'the disk of the store is nearly full, or has room again',
  'gateway.state_slow': 'the server of the limits answers too slowly for the accounts of the pools',
  'store.not_durable': 'a crash of the server of the store loses what was accepted',
  'gateway.state_unavailable': 'the server of the limits does not answer: what needs it waits or is refused',
  'gateway.state_available': 'the server of the limits answers again',
  'gateway.limits_kept':
    'the limits are kept by this gateway or another one while their server is away, or no longer',
  'queue.unavailable': 'RabbitMQ does not answer: notifications leave through the queue of the gateway',
  'queue.available': 'RabbitMQ answers again',
  'queue.differs': 'the queue of a tenant has other arguments on RabbitMQ: it is used as it is',
  'queue.foreign_message': 'a message that no gateway published was removed from the queue of a tenant',
  'delivery_log.created': 'the tables of the delivery log were made',
  'delivery_log.unavailable': 'the delivery log does not answer: changes of state wait in the store',
  'delivery_log.available': 'the delivery log answers again and gets what waited',
  'delivery_log.lost': 'changes of state were given up that the delivery log did not get',
  'retention.done': 'what is older than the retention was deleted',
  audit: 'an operator changed something',
} as const

export type LogEvent = keyof typeof logEvents

/** The part of an event before its dot: `log.levels` sets a level for each. */
export const logComponents = [
  ...new Set(Object.keys(logEvents).map((event) => event.split('.', 1)[0]!)),
] as readonly string[]

/** Fields of a line beside its event. */
export interface LogFields {
  readonly event: LogEvent
  readonly [field: string]: unknown
}

type Write = (fields: LogFields, text?: string) => void

/** The log as the parts of the gateway see it. A line without a text of its own has that of its event. */
export interface Log {
  readonly error: Write
  readonly warn: Write
  readonly info: Write
  readonly debug: Write
  isLevelEnabled(level: 'error' | 'warn' | 'info' | 'debug'): boolean
}
