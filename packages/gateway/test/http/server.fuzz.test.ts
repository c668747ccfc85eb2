/** 2,400 generated requests; server.fuzz.long.test.ts sends 10,000. */
import { exerciseServer } from './server-fuzz.ts'

exerciseServer(2_400)
