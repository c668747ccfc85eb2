/** Made of redis-slots.lua by scripts/build/lua.ts; change those, not this. */
export const scriptParts = ['redis-slots.lua'] as const
export const scriptSha = '96bce150c10dbfa767ab45112fa772c26edcd19d'
export const script = `local b,R=KEYS[1],ARGV[1]
local a,d,q,ac,H=redis.call,cmsgpack.pack,cmsgpack.unpack,string.byte,math.floor
local l=ARGV[3]
if l==''then
local r=a('TIME')
l=r[1]*1000000+r[2]
else
l=l+0
end
local function m(s)
local ad=a('HGET',b,s)
return ad and q(ad)or{}
end
local function ae(aq)
local t,O,P,af=m('names'),{},{},0
for c,z in ipairs(t)do O[z]=c end
af=#t
for c,z in ipairs(aq)do
if not O[z]then
t[#t+1]=z
O[z]=#t
end
P[c]=O[z]
end
if#t>af then a('HSET',b,'names',d(t))end
return P,#t
end
local S,T=a('HGET',b,'head'),ARGV[2]+0
if not S and a('EXISTS',b)==1 then
return redis.error_reply('INVALIDSTATE the key holds something else than slots')
end
local u,A,n,B=l,0,H(l/T),0
if S then
local v=q(S)
u,A,n,B=v[1],v[2],v[3],v[4]
end
if R=='b'then
local P,C=ae({ARGV[4]})
local U,ag=m('blocks'),ARGV[5]+0
U[P[1]]=ag>0 and{ag,ARGV[6]+0,0}or nil
a('HSET',b,'head',d({u,A,n,C}))
if next(U)then a('HSET',b,'blocks',d(U))else a('HDEL',b,'blocks')end
if a('PTTL',b)<ARGV[7]+0 then a('PEXPIRE',b,ARGV[7])end
return'1'
end
if l+A<u then A=u-l end
u=l+A
local x=ARGV[4]
local e=a('HMGET',b,x..':map',x..':free','taken','blocks')
if not e[1]and ARGV[6]==''then return'?'end
local D=e[4]and q(e[4])
local i=e[3]and q(e[3])
local V,W=H(u/T),false
if V~=n then
local y=m('windows')
for I,o in ipairs(y)do
local J,ar,X,E=o[1],o[2],o[3],o[4]
local Y,j=H(V/ar),nil
if i then
local s=J..':'..E%X
local g=a('HGET',b,s)
j=m(J..':sum')
if g then
g=q(g)
for c=1,B do g[c]=(g[c]or 0)+(i[c]or 0)end
a('HSET',b,s,d(g))
else
a('HSET',b,s,e[3])
end
for c=1,B do j[c]=(j[c]or 0)+(i[c]or 0)end
end
for as=math.max(E,Y-X)+1,Y do
local s=J..':'..as%X
local g=a('HGET',b,s)
if g then
g,j=q(g),j or m(J..':sum')
for c=1,#g do j[c]=j[c]-g[c]end
a('HDEL',b,s)
end
end
o[4]=Y
if j then a('HSET',b,J..':sum',d(j))end
end
n,i,W=V,nil,true
a('HSET',b,'windows',d(y))
a('HDEL',b,'taken')
end
local K
if not e[1]then
local ah,y,Z=cjson.decode(ARGV[6]),m('windows'),true
local k,ai,L=nil,{},m('rosters')
k,B=ae(ah[1])
for c,f in ipairs(k)do Z=Z and c==f end
for I,o in ipairs(y)do ai[o[1]]=true end
K=ah[2]
for I,w in ipairs(K)do
if not ai[w[1]]then y[#y+1]={w[1],w[2],w[3],H(n/w[2])}end
end
L[#L+1]=x
if#L>16 then
local v=table.remove(L,1)
a('HDEL',b,v..':map',v..':rules',v..':free')
end
e[1],e[2]=Z and'='..#k or d(k),false
a('HSET',b,x..':map',e[1],x..':rules',d(K),'windows',d(y),
'rosters',d(L))
end
local k,C
if ac(e[1])==61 then
C=string.sub(e[1],2)+0
else
k=q(e[1])
C=#k
end
local F,aj
if e[2]and not W then
aj,F=q(e[2])
end
if aj~=n then
F={}
for I,w in ipairs(K or m(x..':rules'))do
local j,at=m(w[1]..':sum'),w[4]
for f=1,C do
local ak=at[f]
if ak>=0 then
local G,al=ak-(j[k and k[f]or f]or 0),F[f]
if not al or G<al then F[f]=G end
end
end
end
a('HSET',b,x..':free',d(n)..d(F))
end
if not i then i={}end
for c=#i+1,B do i[c]=0 end
local aa,am,an,r={ac(ARGV[5],1,-1)},{},false,H(l/1000)
local M,Q={},false
for f=1,C do
local E=3*f
local p=aa[E-2]*16384+aa[E-1]*128+aa[E]
local c=k and k[f]or f
local h=D and D[c]
if h and h[2]==0 and r>=h[1]then
D[c],h,Q=nil,nil,true
end
if h then
local ao=r>=h[1]
local au=R=='p'and ao and r>=h[3]
p=au and p>0 and 1 or 0
local ab=#M
M[ab+1],M[ab+2],M[ab+3]=f,h[1],ao and 1 or 0
elseif R=='p'then
p=0
end
if p>0 then
local ap=i[c]
local G=F[f]-ap
if G<p then p=G>0 and G or 0 end
if p>0 then
i[c],an=ap+p,true
if h then h[3],Q=r+ARGV[7],true end
end
end
am[f]=p
end
if Q and next(D)then
a('HSET',b,'blocks',d(D))
elseif Q then
a('HDEL',b,'blocks')
end
if an then a('HSET',b,'taken',d(i))end
a('HSET',b,'head',d({u,A,n,B}))
if W or K then
local N=0
for I,o in ipairs(m('windows'))do N=math.max(N,2*o[1]+60000)end
for I,h in pairs(D or{})do N=math.max(N,h[1]-r+86400000)end
a('PEXPIRE',b,N)
end
return d((n+1)*T-u,am,M)`
