/** Made of redis-slots.lua by scripts/build/lua.ts; change those, not this. */
export const scriptParts = ['redis-slots.lua'] as const
export const scriptSha = '4d8acbe0e8f2bb11e33c2230f810b0359b6e0784'
export const script = `\
local n,x=KEYS[1],ARGV[1]local e,l,f,q,v=redis.call,cmsgpack.pack,cmsgpack.unpack,string.byte,math.floor
local r=ARGV[3]if r==''then
local f=e('TIME')r=f[1]*1e6+f[2]else r=r+0 end
local function a(d)local l=e('HGET',n,d)return l and f(l)or{}end
local function m(d)local t,o,i,r=a('names'),{},{},0 for e,n in ipairs(t)do o[n]=e end r=#t for e,n in ipairs(d\
)do if not o[n]then t[#t+1]=n o[n]=#t end i[e]=o[n]end if#t>r then e('HSET',n,'names',l(t))end return\
 i,#t end
local t,y=e('HGET',n,'head'),ARGV[2]+0 if not t and e('EXISTS',n)==1 then return redis.error_reply('INVALIDSTA\
TE the key holds something else than slots')end
local u,h,o,p=r,0,v(r/y),0
local c,g=ARGV[8]=='1'and o or 0,0 if t then
local l=f(t)u,h,o,p=l[1],l[2],l[3],l[4]c,g=l[5]or 0,l[6]or 0 end if x=='b'then
local i,k=m({ARGV[4]})local r,d=a('blocks'),ARGV[5]+0 if not t and c>0 then c=-1 end r[i[1]]=d>0 and{d,ARGV[6]\
+0,0}or nil e('HSET',n,'head',l({u,h,o,k,c,g}))if next(r)then e('HSET',n,'blocks',l(r))else e('HDEL',n,'blocks\
')end if e('PTTL',n)<ARGV[7]+0 then e('PEXPIRE',n,ARGV[7])end return'1'end if r+h<u then h=u-r end u=r+h
local s=ARGV[4]local t=e('HMGET',n,s..':map',s..':free','taken','blocks')if not t[1]and ARGV[6]==''then ret\
urn'?'end
local b=t[4]and f(t[4])local i=t[3]and f(t[3])local d,j=v(u/y),false if d~=o then
local r=a('windows')for u,o in ipairs(r)do
local u,g,s,c=o[1],o[2],o[3],o[4]local h,r=v(d/g),nil if i then
local d=u..':'..c%s
local o=e('HGET',n,d)r=a(u..':sum')if o then o=f(o)for e=1,p do o[e]=(o[e]or 0)+(i[e]or 0)end e('HSET',n,d,l(o\
))else e('HSET',n,d,t[3])end for e=1,p do r[e]=(r[e]or 0)+(i[e]or 0)end end for l=math.max(c,h-s)+1,h do
local d=u..':'..l%s
local o=e('HGET',n,d)if o then o,r=f(o),r or a(u..':sum')for e=1,#o do r[e]=r[e]-o[e]end e('HDEL',n,d)end end \
o[4]=h if r then e('HSET',n,u..':sum',l(r))end end o,i,j=d,nil,true e('HSET',n,'windows',l(r))e('HDEL',n,'take\
n')end if c<0 then c=o end
local w if not t[1]then
local u,r,f=cjson.decode(ARGV[6]),a('windows'),true
local d,h,i=nil,{},a('rosters')d,p=m(u[1])for e,n in ipairs(d)do f=f and e==n end for u,o in ipairs(r)do h[o[1\
]]=true end w=u[2]for u,e in ipairs(w)do if c>0 and e[2]==1 then g=math.max(g,c+e[3])end if not h[e[1]]then r[\
#r+1]={e[1],e[2],e[3],v(o/e[2])}end end i[#i+1]=s if#i>16 then
local l=table.remove(i,1)e('HDEL',n,l..':map',l..':rules',l..':free')end t[1],t[2]=f and'='..#d or l(d),false \
e('HSET',n,s..':map',t[1],s..':rules',l(w),'windows',l(r),'rosters',l(i))end
local d,k if q(t[1])==61 then k=string.sub(t[1],2)+0 else d=f(t[1])k=#d end
local m,z if t[2]and not j then z,m=f(t[2])end if z~=o then m={}for u,e in ipairs(w or a(s..':rules'))do
local r,l=a(e[1]..':sum'),e[4]for n=1,k do
local e=l[n]if e>=0 then
local o,l=e-(r[d and d[n]or n]or 0),m[n]if not l or o<l then m[n]=o end end end end e('HSET',n,s..':free',l(o)\
..l(m))end if not i then i={}end for e=#i+1,p do i[e]=0 end
local z,A,B,f={q(ARGV[5],1,-1)},{},false,v(r/1000)local r,s={},false for n=1,k do
local c=3*n
local t=z[c-2]*16384+z[c-1]*128+z[c]local e=d and d[n]or n
local l=b and b[e]if l and l[2]==0 and f>=l[1]then b[e],l,s=nil,nil,true end if l then
local o=f>=l[1]local e=x=='p'and o and f>=l[3]t=e and t>0 and 1 or 0
local e=#r r[e+1],r[e+2],r[e+3]=n,l[1],o and 1 or 0 elseif x=='p'then t=0 end if o<g then t=0 end if t>0 then
local r=i[e]local o=m[n]-r if o<t then t=o>0 and o or 0 end if t>0 then i[e],B=r+t,true if l then l[3],s=f+ARG\
V[7],true end end end A[n]=t end if s and next(b)then e('HSET',n,'blocks',l(b))elseif s then e('HDEL',n,'block\
s')end if B then e('HSET',n,'taken',l(i))end e('HSET',n,'head',l({u,h,o,p,c,g}))if j or w then
local t=0 for u,o in ipairs(a('windows'))do t=math.max(t,2*o[1]+6e4)end for u,l in pairs(b or{})do t=math.max(\
t,l[1]-f+864e5)end e('PEXPIRE',n,t)end return l((o+1)*y-u,A,r)`
