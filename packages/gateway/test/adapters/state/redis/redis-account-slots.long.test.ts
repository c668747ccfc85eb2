/** Accounts of several processes over Redis, in more random runs. */
import { exerciseRedisAccounts } from './account-slots-suite.ts'

exerciseRedisAccounts([2, 3, 4, 5])
