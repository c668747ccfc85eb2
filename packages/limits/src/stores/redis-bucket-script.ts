/** Made of redis-bucket.lua by scripts/build/lua.ts; change those, not this. */
export const scriptParts = ['redis-bucket.lua'] as const
export const scriptSha = '4321fdf20cb9548ea32c44281f0e2d3b5a1a68ce'
export const script = `\
if ARGV[5]=='d'then return redis.call('DEL',KEYS[1])end
local o,i,l,d=ARGV[1]+0,ARGV[2]+0,ARGV[3]+0,ARGV[4]+0
local e,n=ARGV[6],0 if e==''then
local n=redis.call('TIME')e=n[1]*1000+math.floor(n[2]/1000)else e=e+0 end
local r=redis.call('GET',KEYS[1])if r then
local c,d,a,t,f=pcall(cmsgpack.unpack,r)if not c or f or not(type(d)=='number'and type(a)=='number'and type(t)\
=='number')then return redis.error_reply('INVALIDSTATE the key holds something else than a bucket')end n=d if \
t~=l then n=math.ceil(n/t*l)end n=math.min(math.max(0,n-math.max(0,e-a)*i),o*l)end
local t=n+d*l if ARGV[5]=='1'and t<=o*l then
local n=ARGV[6]==''and math.ceil(t/i)or 36e5 redis.call('SET',KEYS[1],cmsgpack.pack(t,e,l),'PX',n)end return c\
msgpack.pack(e,n)`
