/**
 * One-line sabotages of what holds between gateways: rights, generations, registrations, members, lost state. Two gateways
 * show them; the model of the record is sabotaged where PostgreSQL would be.
 */
import type { Sabotage } from './sabotage.ts'

const ofTwo: readonly Omit<Sabotage, 'gateways'>[] = [
  {
    name: 'right-without-end',
    file: 'delivery/send-batch.ts',
    from: 'else if (clock.monotonic() > until) {',
    to: 'else if (clock.monotonic() === until) {',
  },
  {
    name: 'right-of-what-another-holds',
    file: 'store/memory/memory-fleet.ts',
    from: 'if (now === undefined || !isMine || !sameVersion(now, notification)) {',
    to: 'if (now === undefined || !sameVersion(now, notification)) {',
  },
  {
    name: 'right-of-an-older-version',
    file: 'store/memory/memory-fleet.ts',
    from: 'if (now === undefined || !isMine || !sameVersion(now, notification)) {',
    to: 'if (now === undefined || !isMine) {',
  },
  {
    name: 'right-without-the-recipients-version',
    file: 'delivery/send-batch.ts',
    from: 'if (outdated?.has(id)) recipients.forget(tenant, to.id)',
    to: '',
  },
  {
    name: 'right-without-the-newest-servers',
    file: 'composition/fleet-state.ts',
    from: 'if (given.servers !== undefined) redis.expect(given.servers)',
    to: '',
  },
  {
    name: 'fired-before-the-right',
    file: 'store/memory/memory-fleet.ts',
    from: "return isSent ? { ...row, status: 'sending' } : row",
    to: 'return isSent && row.id === "" ? row : row',
  },
  {
    name: 'refill-without-what-is-sent',
    file: 'admission/limiter-recovery.ts',
    from: "return admission.status === 'sending' ? { ...admission, firedAt: clock.now() } : admission",
    to: 'return admission',
  },
  {
    name: 'refill-at-once-under-a-new-number',
    file: 'store/postgres/fleet/registrations.ts',
    from: 'await new Promise((resolve) => setTimeout(resolve, rightMs))',
    to: '',
  },
  {
    name: 'generation-not-compared',
    file: 'store/memory/memory-fleet.ts',
    from: 'if (number !== this.generationOf(tenant, state))',
    to: 'if (number < 0)',
  },
  {
    name: 'generation-not-taken',
    file: 'adapters/state/redis/redis-throttle.ts',
    from: 'const g = await record.nextThrottleGeneration(tenant)',
    to: 'const g = (await record.generations(tenant)).throttle',
  },
  {
    name: 'room-generation-not-taken',
    file: 'adapters/state/redis/redis-room.ts',
    from: 'const g = await record.nextRoomGeneration(tenant)',
    to: 'const g = (await record.generations(tenant)).room',
  },
  {
    name: 'later-generation-never-filled',
    file: 'composition/fleet-state.ts',
    from: 'expectGenerations(tenant).catch(',
    to: 'Promise.resolve().catch(',
  },
  {
    name: 'queue-filled-without-a-claim',
    file: 'adapters/state/redis/throttle-operations.lua',
    from: "if call('HGET', key, 'c') ~= token then return { 'late' } end",
    to: '',
  },
  {
    name: 'queue-of-another-life',
    file: 'adapters/state/redis/throttle-queue.lua',
    from: 'if h[1] ~= incarnation or h[2] < leastGeneration',
    to: 'if h[2] < leastGeneration',
  },
  {
    name: 'limits-of-another-life',
    file: 'adapters/state/redis/limit-operations.lua',
    from: "string.sub(row[1], 1, #incarnation + 1) == incarnation .. ' ' and",
    to: '',
  },
  {
    name: 'accounts-of-another-life',
    file: 'adapters/state/redis/accounts.lua',
    from: 'head[1] ~= incarnation or ',
    to: '',
  },
  {
    name: 'accounts-used-at-birth',
    file: 'delivery/accounts/fleet-accounts.ts',
    from: 'const coldMs = 2 * idleMs + 100',
    to: 'const coldMs = 0 * idleMs',
  },
  {
    name: 'token-used-behind-its-slot',
    file: 'delivery/accounts/fleet-tokens.ts',
    from: 'return now < this.#until && (this.#count > 0 || (isCritical && this.#critical > 0))',
    to: 'return this.#count > 0 || (isCritical && this.#critical > 0)',
  },
  {
    name: 'dead-member-still-writes',
    file: 'store/memory/memory-fleet.ts',
    from: "if (this.caller.state === 'dead') return [{ kind: 'member', key: this.caller.id }]",
    to: '',
  },
  {
    name: 'dead-member-still-has-rights',
    file: 'store/memory/memory-fleet.ts',
    from: 'const isMine = this.isFree(notification) || this.isHeldByCaller(notification)',
    to: 'const isMine = true',
  },
  {
    name: 'nobody-takes-over',
    file: 'composition/admission.ts',
    from: 'members.onDeath(scheduler.takeOver)',
    to: '',
  },
  {
    name: 'taken-over-without-a-suspect',
    file: 'store/memory/memory-store.ts',
    from: 'const suspect = { ...notification, suspects: [...(notification.suspects ?? []), at] }',
    to: 'const suspect = { ...notification, suspects: notification.suspects ?? [at - 9e9] }',
  },
  {
    name: 'taken-over-suspect-not-counted',
    file: 'store/memory/memory-store.ts',
    from: 'return { notification: suspect, mayHaveLeft }',
    to: 'return { notification: suspect, mayHaveLeft: false }',
  },
  {
    name: 'lost-claims-are-not-swept',
    file: 'scheduler/own-sweep.ts',
    from: 'taken = still.length === 0 ? [] : await store.takeBack(clock.now(), still)',
    to: 'taken = []',
  },
  {
    name: 'swept-suspects-not-counted',
    file: 'scheduler/own-sweep.ts',
    from: 'if (suspected.length > 0) await countSuspects(suspected.map(({ notification }) => notification))',
    to: '',
  },
  {
    name: 'opt-out-answered-before-rights-end',
    file: 'admission/redecision.ts',
    from: 'if (othersCallForMs > 0)',
    to: 'if (othersCallForMs > 1e9)',
  },
  {
    name: 'recipient-written-over-another',
    file: 'store/memory/memory-fleet.ts',
    from: 'if (version !== undefined && version !== this.#versionOf(tenant, id))',
    to: 'if (version !== undefined && version < 0)',
  },
  {
    name: 'decided-for-an-older-recipient',
    file: 'store/memory/memory-fleet.ts',
    from: 'if (version !== this.#versionOf(tenant, recipient))',
    to: 'if (version < 0)',
  },
  {
    name: 'room-of-the-dead-stays',
    file: 'composition/fleet-state.ts',
    from: 'for (const part of [peers, room, connections]) members.onDeath(part.noteGone)',
    to: 'members.onDeath(peers.noteGone)',
  },
]

export const fleetSabotages: readonly Sabotage[] = ofTwo.map((each) => ({ ...each, gateways: 2 }))
