/** Made of redis-bucket.lua by scripts/build/lua.ts; change those, not this. */
export const scriptParts = ['redis-bucket.lua'] as const
export const scriptSha = 'ea88c667902d467ea4c0f6eb9eac04573ab64c3b'
export const script = `if ARGV[5]=='d'then return redis.call('DEL',KEYS[1])end
local f,g,c,l=ARGV[1]+0,ARGV[2]+0,ARGV[3]+0,ARGV[4]+0
local a,b=ARGV[6],0
if a==''then
local h=redis.call('TIME')
a=h[1]*1000+math.floor(h[2]/1000)
else
a=a+0
end
local i=redis.call('GET',KEYS[1])
if i then
local m,j,k,d,n=pcall(cmsgpack.unpack,i)
if not m or n or not(type(j)=='number'and type(k)=='number'and type(d)=='number')then
return redis.error_reply('INVALIDSTATE the key holds something else than a bucket')
end
b=j
if d~=c then b=math.ceil(b/d*c)end
b=math.min(math.max(0,b-math.max(0,a-k)*g),f*c)
end
local e=b+l*c
if ARGV[5]=='1'and e<=f*c then
local o=ARGV[6]==''and math.ceil(e/g)or 3600000
redis.call('SET',KEYS[1],cmsgpack.pack(e,a,c),'PX',o)
end
return cmsgpack.pack(a,b)`
