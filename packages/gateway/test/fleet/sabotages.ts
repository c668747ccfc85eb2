/**
 * One-line sabotages of the protocol. Each stands for a mistake that is easily made; `npm run check:fleet -- --sabotage`
 * tries each, and the oracles must find it.
 */
import { fleetSabotages } from './fleet-sabotages.ts'
import type { Sabotage } from './sabotage.ts'

const ofOne: readonly Sabotage[] = [
  {
    name: 'lost-commit-taken-for-refused',
    file: 'ledger/ledger.ts',
    from: 'isUncertain ? await lookUp(change, underWay) : undefined',
    to: 'isUncertain && underWay === undefined ? await lookUp(change, underWay) : undefined',
  },
  {
    name: 'lost-commit-taken-for-applied',
    file: 'ledger/ledger.ts',
    from: 'isUncertain ? await lookUp(change, underWay) : undefined',
    to: 'isUncertain && lookUp !== undefined ? { applied: true } : undefined',
  },
  {
    name: 'equal-changes-count-twice',
    file: 'ledger/lost-answers.ts',
    from: 'conflicts.length === 0 ? { applied: true }',
    to: 'conflicts.length >= 0 ? { applied: true }',
  },
  {
    name: 'held-after-its-move',
    file: 'ledger/ledger.ts',
    from: 'drop(move.after)',
    to: '',
  },
  {
    name: 'no-opt-out-before-the-call',
    file: 'delivery/send-checks.ts',
    from: 'if (reason !== undefined) return suppressed',
    to: 'if (now < 0) return suppressed',
  },
  {
    name: 'late-call-forgotten-before-counted',
    drill: 'slow-limits',
    file: 'delivery/attempt.ts',
    from: 'if (this.countLate(now) === undefined) this.#stopTracking()',
    to: 'void this.countLate(now), this.#stopTracking()',
  },
  {
    name: 'fired-beside-a-call-under-way',
    drill: 'slow-limits',
    file: 'delivery/send-batch.ts',
    from: 'inFlightSends.isBehind(attempt, at)',
    to: 'inFlightSends.isBehind(attempt, 0)',
  },
  {
    name: 'refused-count-is-forgotten',
    drill: 'slow-limits',
    file: 'delivery/late-count.ts',
    from: 'if (!concernsAll(error)) return',
    to: 'return',
  },
  {
    name: 'late-answer-of-fire-is-used',
    drill: 'slow-limits',
    file: 'delivery/fired-in-time.ts',
    from: 'answer.fired && now - answer.at > (isTold ? toldPermitMs : permitMs)',
    to: 'answer.fired && now < 0',
  },
  {
    name: 'suspects-do-not-count',
    drill: 'restarts',
    file: 'admission/limiter-recovery.ts',
    from: 'const { suspects = [] } = admission',
    to: 'const suspects: readonly number[] = []',
  },
  {
    name: 'throttle-queue-not-restored',
    file: 'adapters/state/throttle/throttle-queues.ts',
    from: 'queue.restore(restored, urgent, clock.now())',
    to: 'queue.restore([], [], clock.now())',
  },
  {
    name: 'throttle-queue-last-in-first-out',
    file: 'adapters/state/throttle/throttle-queue.ts',
    from: 'queue.ids.push(id)\n    insert(queue.places, at)',
    to: 'queue.ids.unshift(id)\n    insert(queue.places, at)',
  },
  {
    name: 'scheduler-wakes-late',
    file: 'scheduler/scheduler.ts',
    from: 'clock.at(next, wake)',
    to: 'clock.at(next + 200, wake)',
  },
  {
    name: 'only-calls-of-this-policy-count',
    drill: 'restarts',
    file: 'admission/limiter-recovery.ts',
    from: 'for (const entry of entriesOf(admission, rules)) {',
    to: 'for (const entry of policyVersion === policy.version ? entriesOf(admission, rules) : []) {',
  },
  {
    name: 'acceptances-not-restored',
    file: 'adapters/state/throttle/throttle-queues.ts',
    from: 'else queue.count(module, at)',
    to: 'else if (at < 0) queue.count(module, at)',
  },
  {
    name: 'move-without-comparing-before',
    file: 'store/memory/memory-conflicts.ts',
    from: "if (now === undefined || !sameVersion(now, before)) note('notification', before.id)",
    to: "if (now === undefined) note('notification', before.id)",
  },
  {
    name: 'taken-back-though-it-has-fired',
    file: 'adapters/state/memory.ts',
    from: 'if (unlessFired === undefined) return false',
    to: 'if (id !== undefined || unlessFired === undefined) return false',
  },
  {
    name: 'replaced-version-is-sent',
    file: 'ledger/concurrent-moves.ts',
    from: 'return this.#changesOf(notification).length > 0',
    to: 'return this.#changesOf(notification).length < 0',
  },
  {
    name: 'answer-not-stored-with-acceptance',
    file: 'admission/admit.ts',
    from: '...(answer === undefined ? {} : { answer: answer(results) }),',
    to: '',
  },
  {
    name: 'block-not-asked-before-the-call',
    drill: 'slow-limits',
    file: 'delivery/pools/lease.ts',
    from: 'if (this.probe ? this.holder.isHeld(now) : this.holder.isOut(now)) return false',
    to: '',
  },
  {
    name: 'account-used-at-once-after-a-kill',
    drill: 'restarts',
    file: 'delivery/accounts/account.ts',
    from: 'this.#notBefore = instant + longest',
    to: 'this.#notBefore = 0 * (instant + longest)',
  },
  {
    name: 'long-windows-not-written-ahead',
    drill: 'restarts',
    file: 'delivery/accounts/account.ts',
    from: 'if (!this.#use.admits) return undefined',
    to: '',
  },
  {
    name: 'room-not-given-back',
    file: 'adapters/state/memory-room.ts',
    from: 'count(tenant, { queue: -queue, waiting: -waiting, bytes: -bytes })',
    to: '',
  },
  {
    name: 'no-bound-of-the-queue',
    file: 'adapters/state/memory-room.ts',
    from: 'const queueFull = queue > 0 && of.queue + queue > queueMax',
    to: 'const queueFull = false',
  },
  {
    name: 'cancel-forgets-who-is-sending',
    file: 'admission/cancellation.ts',
    from: "|| notification.status === 'sending' || live?.status === 'sending') {",
    to: "|| notification.status === 'sending') {",
  },
  {
    name: 'refused-settlement-is-dropped',
    file: 'delivery/completer.ts',
    from: "const isBusy = (error as SluiceError).code === 'STORE_UNAVAILABLE'",
    to: 'const isBusy = false',
  },
  {
    name: 'paused-after-an-error',
    file: 'admission/recipient-limiter.ts',
    from: 'if (freed.length > 0) onFreed(freed)\n    }\n  }',
    to: '}\n  }',
  },
  {
    name: 'passed-at-its-creation',
    file: 'admission/candidate.ts',
    from: 'if (Math.abs(at - notification.createdAt) > passSlackMs)',
    to: 'if (at < 0)',
  },
  {
    name: 'packed-without-what-counts',
    file: 'adapters/state/memory.ts',
    from: 'packed.put(key, entriesOf(store.sync, key), subject.fingerprints)',
    to: 'packed.put(key, [], subject.fingerprints)',
  },
  {
    name: 'pushed-out-while-it-is-asked',
    file: 'adapters/state/subject-cache.ts',
    from: 'if (subject.touched || this.#pins.has(key) || !this.#mayForget(key, subject)) subject.touched = false',
    to: 'if (subject.touched || !this.#mayForget(key, subject)) subject.touched = false',
  },
  {
    name: 'hold-not-on-record',
    drill: 'restarts',
    file: 'ledger/operator-holds.ts',
    from: 'for (const hold of await recorded()) holds.set(hold.name, hold)',
    to: 'await recorded()',
  },
  {
    name: 'hold-not-asked-before-the-call',
    drill: 'slow-limits',
    file: 'delivery/send-batch.ts',
    from: 'return rules.isHeld(notification) || !lease.mayCall(now)',
    to: 'return !lease.mayCall(now)',
  },
  {
    name: 'closing-of-a-digest-never-forgotten',
    file: 'admission/digests/digest-closer.ts',
    from: 'if (closing.get(id) === over) closing.delete(id)',
    to: '',
  },
  {
    name: 'kept-twice-after-a-refusal',
    file: 'admission/redecision.ts',
    from: 'const kept = { ...notification }',
    to: 'const kept = notification',
  },
  {
    name: 'kept-twice-after-moving-up',
    file: 'admission/move-up-writer.ts',
    from: 'scheduler.place([{ ...before }])',
    to: 'scheduler.place([before])',
  },
]

/** All sabotages: of one gateway, and of what holds between several. */
export const sabotages: readonly Sabotage[] = [...ofOne, ...fleetSabotages]
