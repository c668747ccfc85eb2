-- A request with an Idempotency-Key that is in progress. KEYS[1] holds <owner> <hash of the body>, and lapses with its
-- lease: the process that holds it renews it. A call that comes late does nothing (prologue.lua): a request that begins when
-- its process has given up may have ended before.
--
-- ARGV[6]  begin, keep or end; ARGV[7] the owner: a process and one of its requests; ARGV[8] the hash of the body;
-- ARGV[9]  the lease, ms
-- returns  of begin: new, busy or mismatch; else how many keys were changed
local owner, hash, leaseMs = ARGV[7], ARGV[8], ARGV[9]
local value, own = call('GET', key), owner .. ' ' .. hash
if operation == 'begin' then
  if value and value ~= own then
    return string.sub(value, -#hash - 1) == ' ' .. hash and 'busy' or 'mismatch'
  end
  call('SET', key, own, 'PX', leaseMs)
  return 'new'
end
if value ~= own then return 0 end
if operation == 'keep' then return call('PEXPIRE', key, leaseMs) end
return call('DEL', key)
