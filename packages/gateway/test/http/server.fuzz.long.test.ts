/** 10,000 generated requests, as in server.fuzz.test.ts. */
import { exerciseServer } from './server-fuzz.ts'

exerciseServer(10_000)
