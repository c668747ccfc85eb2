/** Made of redis-slots.lua by scripts/build/lua.ts; change those, not this. */
export const scriptParts = ['redis-slots.lua'] as const
export const scriptSha = '2003e165d5001a6e59bab75f0da93eedd162fc13'
export const script = `local b,U=KEYS[1],ARGV[1]
local a,d,t,ae,J=redis.call,cmsgpack.pack,cmsgpack.unpack,string.byte,math.floor
local m=ARGV[3]
if m==''then
local u=a('TIME')
m=u[1]*1000000+u[2]
else
m=m+0
end
local function n(v)
local af=a('HGET',b,v)
return af and t(af)or{}
end
local function ag(as)
local w,Q,R,ah=n('names'),{},{},0
for c,A in ipairs(w)do Q[A]=c end
ah=#w
for c,A in ipairs(as)do
if not Q[A]then
w[#w+1]=A
Q[A]=#w
end
R[c]=Q[A]
end
if#w>ah then a('HSET',b,'names',d(w))end
return R,#w
end
local S,V=a('HGET',b,'head'),ARGV[2]+0
if not S and a('EXISTS',b)==1 then
return redis.error_reply('INVALIDSTATE the key holds something else than slots')
end
local x,B,g,C=m,0,J(m/V),0
local r,D=ARGV[8]=='1'and g or 0,0
if S then
local o=t(S)
x,B,g,C=o[1],o[2],o[3],o[4]
r,D=o[5]or 0,o[6]or 0
end
if U=='b'then
local R,E=ag({ARGV[4]})
local W,ai=n('blocks'),ARGV[5]+0
if not S and r>0 then r=-1 end
W[R[1]]=ai>0 and{ai,ARGV[6]+0,0}or nil
a('HSET',b,'head',d({x,B,g,E,r,D}))
if next(W)then a('HSET',b,'blocks',d(W))else a('HDEL',b,'blocks')end
if a('PTTL',b)<ARGV[7]+0 then a('PEXPIRE',b,ARGV[7])end
return'1'
end
if m+B<x then B=x-m end
x=m+B
local y=ARGV[4]
local e=a('HMGET',b,y..':map',y..':free','taken','blocks')
if not e[1]and ARGV[6]==''then return'?'end
local F=e[4]and t(e[4])
local j=e[3]and t(e[3])
local X,Y=J(x/V),false
if X~=g then
local z=n('windows')
for K,s in ipairs(z)do
local L,at,Z,G=s[1],s[2],s[3],s[4]
local aa,k=J(X/at),nil
if j then
local v=L..':'..G%Z
local h=a('HGET',b,v)
k=n(L..':sum')
if h then
h=t(h)
for c=1,C do h[c]=(h[c]or 0)+(j[c]or 0)end
a('HSET',b,v,d(h))
else
a('HSET',b,v,e[3])
end
for c=1,C do k[c]=(k[c]or 0)+(j[c]or 0)end
end
for au=math.max(G,aa-Z)+1,aa do
local v=L..':'..au%Z
local h=a('HGET',b,v)
if h then
h,k=t(h),k or n(L..':sum')
for c=1,#h do k[c]=k[c]-h[c]end
a('HDEL',b,v)
end
end
s[4]=aa
if k then a('HSET',b,L..':sum',d(k))end
end
g,j,Y=X,nil,true
a('HSET',b,'windows',d(z))
a('HDEL',b,'taken')
end
if r<0 then r=g end
local M
if not e[1]then
local aj,z,ab=cjson.decode(ARGV[6]),n('windows'),true
local l,ak,N=nil,{},n('rosters')
l,C=ag(aj[1])
for c,f in ipairs(l)do ab=ab and c==f end
for K,s in ipairs(z)do ak[s[1]]=true end
M=aj[2]
for K,p in ipairs(M)do
if r>0 and p[2]==1 then D=math.max(D,r+p[3])end
if not ak[p[1]]then z[#z+1]={p[1],p[2],p[3],J(g/p[2])}end
end
N[#N+1]=y
if#N>16 then
local o=table.remove(N,1)
a('HDEL',b,o..':map',o..':rules',o..':free')
end
e[1],e[2]=ab and'='..#l or d(l),false
a('HSET',b,y..':map',e[1],y..':rules',d(M),'windows',d(z),
'rosters',d(N))
end
local l,E
if ae(e[1])==61 then
E=string.sub(e[1],2)+0
else
l=t(e[1])
E=#l
end
local H,al
if e[2]and not Y then
al,H=t(e[2])
end
if al~=g then
H={}
for K,p in ipairs(M or n(y..':rules'))do
local k,av=n(p[1]..':sum'),p[4]
for f=1,E do
local am=av[f]
if am>=0 then
local I,an=am-(k[l and l[f]or f]or 0),H[f]
if not an or I<an then H[f]=I end
end
end
end
a('HSET',b,y..':free',d(g)..d(H))
end
if not j then j={}end
for c=#j+1,C do j[c]=0 end
local ac,ao,ap,u={ae(ARGV[5],1,-1)},{},false,J(m/1000)
local O,T={},false
for f=1,E do
local G=3*f
local q=ac[G-2]*16384+ac[G-1]*128+ac[G]
local c=l and l[f]or f
local i=F and F[c]
if i and i[2]==0 and u>=i[1]then
F[c],i,T=nil,nil,true
end
if i then
local aq=u>=i[1]
local aw=U=='p'and aq and u>=i[3]
q=aw and q>0 and 1 or 0
local ad=#O
O[ad+1],O[ad+2],O[ad+3]=f,i[1],aq and 1 or 0
elseif U=='p'then
q=0
end
if g<D then q=0 end
if q>0 then
local ar=j[c]
local I=H[f]-ar
if I<q then q=I>0 and I or 0 end
if q>0 then
j[c],ap=ar+q,true
if i then i[3],T=u+ARGV[7],true end
end
end
ao[f]=q
end
if T and next(F)then
a('HSET',b,'blocks',d(F))
elseif T then
a('HDEL',b,'blocks')
end
if ap then a('HSET',b,'taken',d(j))end
a('HSET',b,'head',d({x,B,g,C,r,D}))
if Y or M then
local P=0
for K,s in ipairs(n('windows'))do P=math.max(P,2*s[1]+60000)end
for K,i in pairs(F or{})do P=math.max(P,i[1]-u+86400000)end
a('PEXPIRE',b,P)
end
return d((g+1)*V-x,ao,O)`
