/**
 * The public door of @sluice/limits. What is not named here is not for users and may change at any time; the port
 * for those who write a store is store.ts, with the suite that every store must pass in `@sluice/limits-conformance`.
 */

export type { BucketDecision, BucketRate, BucketStore } from './buckets.ts'
export type {
  CheckOptions,
  FireCall,
  FireOptions,
  PreviewCall,
  PreviewOptions,
  ReserveCall,
  ReserveOptions,
  TakeCall,
  TakeOptions,
} from './calls.ts'
export { type Decision, decisionOf, type Facts, type RuleRow } from './decision.ts'
export { LimitsError, type LimitsErrorCode, limitsErrors } from './errors.ts'
export type { ForbiddenInterval } from './forbidden.ts'
export {
  type DecidedQuota,
  type Quota,
  quotasOf,
  rateLimitField,
  rateLimitPolicyField,
  retryAfterSeconds,
  tightest,
} from './headers.ts'
export { type Limit, type LimitOptions, limit, type Over, onStream } from './limit.ts'
export {
  createLimits,
  type Limits,
  type LimitsOptions,
  type MemoryLimits,
  type SyncLimits,
} from './limits.ts'
export {
  type NotificationAsk,
  NotificationRateLimiter,
  type NotificationRateLimiterOptions,
  type NotificationResult,
} from './notification-rate-limiter.ts'
export { defaultNotificationTable, type NotificationRule } from './notification-table.ts'
export type { Plan, PlanRule } from './plan.ts'
export * from './quiet-hours.ts'
export {
  createRollingRateLimiter,
  fromRollingRateLimiter,
  type RollingCallback,
  type RollingRateLimiter,
  type RollingRateLimiterOptions,
} from './rolling-rate-limiter.ts'
export { freeAt, type Log, type Rule } from './rolling-window.ts'
export {
  createSlotLeases,
  type SlotAsk,
  type SlotCall,
  type SlotLease,
  type SlotLeases,
  type SlotLeasesOptions,
  type SlotStore,
  type TimedGrant,
} from './slot-leases.ts'
export type { ColdStart, SlotBlock, SlotGrant, SlotQuestion, SlotWindow } from './slots.ts'
export type {
  BlockChange,
  Decide,
  DecideMany,
  Kind,
  Priority,
  Question,
  RestoredEntry,
  Store,
  SyncStore,
  Terms,
} from './store.ts'
export { entriesOf } from './stores/entries-of.ts'
export { type MemoryStore, type MemoryStoreOptions, memoryStore } from './stores/memory.ts'
export { type MemoryBucketsOptions, memoryBuckets } from './stores/memory-buckets.ts'
export { type MemorySlotsOptions, memorySlots } from './stores/memory-slots.ts'
export { type RedisStoreOptions, redisStore } from './stores/redis.ts'
export { type RedisBucketsOptions, redisBuckets } from './stores/redis-buckets.ts'
export type {
  IoredisClient,
  NodeRedisClient,
  RedisClient,
  ScriptClient,
} from './stores/redis-client.ts'
export type { OnUnavailable } from './stores/redis-fallback.ts'
export { type RedisSlotsOptions, redisSlots } from './stores/redis-slots.ts'
export { isTimeZone } from './time-zone.ts'
export { type TokenBucket, type TokenBucketOptions, tokenBucket } from './token-bucket.ts'
export {
  formatDuration,
  formatWindow,
  parseDuration,
  parseWindow,
  parseWindows,
  type Window,
} from './window.ts'
