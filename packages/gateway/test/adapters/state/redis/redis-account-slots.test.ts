/** Accounts of several processes over Redis. */
import { exerciseRedisAccounts } from './account-slots-suite.ts'

exerciseRedisAccounts([1])
