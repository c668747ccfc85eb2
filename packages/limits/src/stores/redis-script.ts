/** Made of redis-long.lua, redis-quick.lua, redis-book.lua, redis-log.lua, redis-state.lua, redis-write.lua, redis-decide.lua, redis-rows.lua by scripts/build/lua.ts; change those, not this. */
export const scriptParts = [
  'redis-long.lua',
  'redis-quick.lua',
  'redis-book.lua',
  'redis-log.lua',
  'redis-state.lua',
  'redis-write.lua',
  'redis-decide.lua',
  'redis-rows.lua',
] as const
export const scriptSha = 'b71a074e7a8b52e7e83c647e20b666f7f6fd1ae3'
export const script = `local dl,J,p=ARGV[1],ARGV[2],nil
local v,h,H,y=string.byte,string.sub,struct.pack,struct.unpack
local k,bz=ARGV[5],(ARGV[8]or 8192)+0
if k==''or not k then
local dm=redis.call('TIME')
local dn=dm[2]+0
k=dm[1]*1000+(dn-dn%1000)/1000
else
k=k+0
end
local aT=H('>I6',k)
local P,cE,cF,cG,cn=v(dl,1,5)
if cn==126 then
cn=nil
local bQ=(function()
local aU,G,S=KEYS[1],ARGV[3],#J
local aJ=redis.pcall('STRLEN',aU)
if type(aJ)=='table'or aJ<=bz or S==12 then return end
local Z,D,aa=redis.call('GETRANGE',aU,0,S-1),ARGV[4]+0,J
if Z~=J then
if v(Z)~=65 or h(Z,10)~=h(J,10)then return end
local be,bf,bg,bh,bi,bj,bk,bl=v(Z,2,9)
local ai,aj,ak,bm,bn,bR,bS,bT=v(J,2,9)
local U=(((bh*128+bi)*128+bj)*128+bk)*128+bl
local w=(((bm*128+bn)*128+bR)*128+bS)*128+bT
local dX=(ai*128+aj)*128+ak>(be*128+bf)*128+bg
aa='A'..h(dX and J or Z,2,4)..h(w>U and J or Z,5)
if U>D then D=U end
end
local z,q,bU=(aJ-S)/6,(cE*128+cF)*128+cG,v(G)
local function ae(d)
local i=S+6*d-6
return(y('>I6',redis.call('GETRANGE',aU,i,i+5)))
end
local F=ae(z)
if F>k or bU==49 then return end
local x,bV,c=5+8*((v(G,2)*128+v(G,3))*128+v(G,4)),{},k
local bA=(v(G,x)*128+v(G,x+1))*128+v(G,x+2)
for d=1,bA do
local i=x+6+12*(d-1)
local ai,aj,ak,bW,bX,bY,cH,cI,al=v(G,i,i+8)
local aK,w=(ai*128+aj)*128+ak,(((bW*128+bX)*128+bY)*128+cH)*128+cI
local aA=al>=2 and 9e15 or aK
local N,ax=aA-q+1,k
if N<1 then
ax=9e15
elseif N<=z then
ax=ae(z-N+1)+w
end
if ax>c then c=ax end
bV[d]={aA=aA,aK=aK,w=w,ax=ax}
end
local bB=c<=k
local ab=bB and P==116
if not bB and P==116 and bU~=48 then return end
local O,af={},ab and q or 0
local bo,m=0,{}
for d=1,bA do
local n=bV[d]
local w,aA=n.w,n.aA
local at=O[w]
if not at then
local o,K,t=0,z,k-w
if F<=t then o=z end
while o<K and K-o>48 do
local am=o+K
local Q=(am-am%2)/2
if ae(Q+1)<=t then o=Q+1 else K=Q end
end
if o<K then
local g,X=redis.call('GETRANGE',aU,S+6*o,S+6*K-1),o
while o<K do
local am=o+K
local Q=(am-am%2)/2
if y('>I6',g,6*(Q-X)+1)<=t then o=Q+1 else K=Q end
end
end
at,O[w]=o,o
end
if n.ax>k and n.ax==c and bo==0 then bo=d end
local aW,dp,dq,cJ=z-at,z+af-aA,k,k
if aA-aW-af<=0 then
dq=aA==0 and 9e15 or(dp<z and ae(dp+1)or k)+w
end
if aW>0 then cJ=ae(at+1)+w elseif ab then cJ=k+w end
local dr=math.max(0,n.aK-aW-af)
m[d]=H('>I4I4I4I4I7I7I1',aW,dr,dr,0,dq,cJ,
aW+q<=aA and 1 or 0)
end
if ab then
local aX,ai,aj,ak=D/8,v(aa,2,4)
local ao=(ai*128+aj)*128+ak
if aa~=Z then redis.call('SETRANGE',aU,0,aa)end
redis.call('APPEND',aU,q==1 and aT or string.rep(aT,q))
if z+q>2*ao then
redis.call('SET',aU,aa..redis.call('GETRANGE',aU,-6*ao,-1),'PX',math.ceil(D+aX))
elseif k-k%aX~=F-F%aX then
redis.call('PEXPIRE',aU,math.ceil(D+aX))
end
end
return'r'..aT..H('>I7',c)..(ab and'1'or'0')..H('>I1I2I7',0,bo,0)
..table.concat(m)
end)()
if bQ then return bQ end
end
p=redis.pcall('GET',KEYS[1])
local ap=type(p)=='table'
if ap then
if not string.find(p.err,'WRONGTYPE',1,true)then return p end
elseif(P==116 or P==99)and not cn and not(p and#p>bz)then
local G,S,X,D=ARGV[3],#J,p,ARGV[4]+0
if S==12 then
X=nil
elseif not p then
X=J
elseif h(p,1,S)~=J then
X=nil
if v(p)==65 and h(p,10,S)==h(J,10)then
local be,bf,bg,bh,bi,bj,bk,bl=v(p,2,9)
local ai,aj,ak,bm,bn,bR,bS,bT=v(J,2,9)
local A,cK=(be*128+bf)*128+bg,(ai*128+aj)*128+ak
local U=(((bh*128+bi)*128+bj)*128+bk)*128+bl
local w=(((bm*128+bn)*128+bR)*128+bS)*128+bT
X='A'..h(cK>A and J or p,2,4)..h(w>U and J or p,5,9)
..h(p,10)
if U>D then D=U end
end
end
local bU,cL,cM,cN=v(G,1,4)
if X and bU~=49 then
local q=(cE*128+cF)*128+cG
local aJ=#X
local z,F,c=(aJ-S)/6,0,k
if z>0 then F=y('>I6',X,aJ-5)end
for x=5,8*((cL*128+cM)*128+cN),8 do
local ai,aj,ak,cO,cP,cQ,cR,cS=v(G,x,x+7)
local N=(ai*128+aj)*128+ak-q+1
if N>z then break end
if N<1 then
c=9e15
break
end
local w=(((cO*128+cP)*128+cQ)*128+cR)*128+cS
local ax=(N==1 and F or(y('>I6',X,aJ-6*N+1)))+w
if ax>c then c=ax end
end
if F>k or c>k and P==116 and bU~=48 then
c=nil
elseif c>k or P==99 then
return'q'..aT..H('>I7',c)..'0'..(p or'')
end
if c then
local af=q==1 and aT or string.rep(aT,q)
local bp,aq=X..af,X~=p
if z+q>256 then
local ai,aj,ak=v(X,2,4)
local ao=(ai*128+aj)*128+ak
if z+q>2*ao then
bp,aq=h(X,1,S)..h(bp,-6*ao),true
end
end
local aX=D/8
if not aq and k-k%aX==F-F%aX then
redis.call('APPEND',KEYS[1],af)
else
redis.call('SET',KEYS[1],bp,'PX',math.ceil(D+aX))
end
return bp
end
end
end
local function aG(bq,z)
local g=''
for E=1,z do
g=string.char(bq%128)..g
bq=math.floor(bq/128)
end
return g
end
local bQ=not ap and(function()
local G,S,l=ARGV[3],#J,ARGV[6]
if l==''then l=nil end
local br,bZ,aL=P==116,P==114,P==102
if not(br or bZ or aL or P==99)or S==12 or v(G)~=48 then return end
local aa,ac,aM,z,aB=J,'\\0\\0','\\0\\1',0,0
local ab,r,A,aC,Z='','','',p or'',nil
if p then
local bC,V=v(p),nil
if bC==65 and h(p,10,S)==h(J,10)then
Z,ab=h(p,2,9),h(p,S+1)
z=#ab/6
elseif h(p,1,4)=='B\\0\\0\\1'and h(p,16,S+6)==h(J,10)then
Z,aM,ac=h(p,8,15),h(p,5,6),h(p,S+7,S+8)
z,aB=y('>I4I4',p,S+9)
V=S+16+6*z
ab,r=h(p,S+17,V),h(p,V+1,V+6*aB)
V=V+6*aB
A,aC=h(p,V+1),h(p,1,V)
else
return
end
end
local E,aD=string.find(A,'\\255\\254',1,true)
if aD then
local bh,bi,bj,bk,bl,dY,dZ=v(A,aD+1,aD+7)
if((((((bh*128+bi)*128+bj)*128+bk)*128+bl)*128+dY)*128+dZ)>k then return end
end
if z>0 and y('>I6',ab,6*z-5)>k then return end
local aY,ca,o,ar=1e18,false,false,nil
local ay=ARGV[7]
if ay and ay~=''then
local ea,eb,ec,ed,ee,ef,eg,eh,ei,ej,ek,el,em,en,al=v(ay,1,15)
if((((((ea*128+eb)*128+ec)*128+ed)*128+ee)*128+ef)*128+eg)>k then return end
aY=(((((eh*128+ei)*128+ej)*128+ek)*128+el)*128+em)*128+en
ca,o=al%2==1,al%4>=2
if#ay>15 then
ar=cjson.decode(h(ay,16))
for d=1,#ar,3 do
if ar[d]<=k and k<ar[d+1]then return end
end
end
end
local q,I,s,F=(cE*128+cF)*128+cG,'',nil,nil
if l then
I='\\255'..l..'\\254'
s,F=string.find(A,I,1,true)
end
if q>4 and P~=99 then return end
if aL then
if not s then return end
local be,bf,bg,eo,ep,eq,er,bW,bX,bY,al,bm,bn=v(A,F+1,F+13)
if al%2==1 or bm~=0 or bn~=1 then return end
local c=(((((be*128+bf)*128+bg)*128+eo)*128+ep)*128+eq)*128+er
q=(bW*128+bX)*128+bY
local co,i=H('>I6',c),0
repeat i=string.find(r,co,i+1,true)until not i or i%6==1
if not i then return end
r,aB=h(r,1,i-1)..h(r,i+6*q),aB-q
aC,o=aC..h(A,s,F+15),al>=2
A=h(A,1,s-1)..h(A,F+16)
elseif s or aB>0 then
return
end
local c,cL,cM,cN=k,v(G,2,4)
for x=5,8*((cL*128+cM)*128+cN),8 do
local ai,aj,ak,cO,cP,cQ,cR,cS=v(G,x,x+7)
local N=(ai*128+aj)*128+ak-q+1
if N<1 then return end
if N>z then break end
local ax=y('>I6',ab,6*(z-N)+1)+(((cO*128+cP)*128+cQ)*128+cR)*128+cS
if ax>c then c=ax end
end
local bs='1'
if c>k and bZ or aL and c>k then
if ar or aB>0 or cn==42 then return end
bs='2'
elseif bZ then
bs='2'
elseif c>k or not br and not aL then
bs='0'
end
if bZ and c-k>aY then bs='0'end
local ds='g'..aT..H('>I7',c)..bs..aC
if bs=='0'then return ds end
local D,co=ARGV[4]+0,H('>I6',c)
local af=q==1 and co or string.rep(co,q)
local W=ca or not bZ and bs=='1'
if W then
ab,z=ab..af,z+q
else
r,aB=af,q
if D<2678400000 then D=2678400000 end
end
if aB>0 and W and D<2678400000 then D=2678400000 end
aa=h(J,2)
if Z and Z~=h(J,2,9)then
local be,bf,bg,bh,bi,bj,bk,bl=v(Z,1,8)
local ai,aj,ak,bm,bn,bR,bS,bT=v(J,2,9)
local ao,cK=(be*128+bf)*128+bg,(ai*128+aj)*128+ak
local U=(((bh*128+bi)*128+bj)*128+bk)*128+bl
local w=(((bm*128+bn)*128+bR)*128+bS)*128+bT
aa=h(cK>ao and J or' '..Z,2,4)..h(w>U and J or' '..Z,5,9)
..h(J,10)
if U>D then D=U end
end
local es,et,eu=v(aa,1,3)
if z>2*((es*128+et)*128+eu)then return end
local e=''
if l then
e=I..aG(c,7)..aG(q,3)..string.char((W and 1 or 0)+(o and 2 or 0))..'\\0\\1'
..aG(y('>I2',ac),2)
end
local bp='B\\0\\0\\1'..aM..'L'..aa..ac..H('>I4I4',z,aB)..ab..r..A..e
if#bp>bz then return end
local cT=c
if aB>q or W and aB>0 then
local dt=y('>I6',r,#r-5)
if dt>cT then cT=dt end
end
redis.call('SET',KEYS[1],bp,'PX',math.ceil(cT-k+D+D/32))
return ds
end)()
if bQ then return bQ end
return(function()
local aZ,du=9e15,281474976710655
local dv,cp,ag,ev=86400000,31*86400000,math.ceil(bz/64),4
local B,T,Z,ba,A,aM={},{},{},{},'',1
local dw,dx=false,false
local function au(g,x,z)
local bq=0
for d=x,x+z-1 do bq=bq*128+v(g,d)end
return bq
end
local function bt(g,ad)
local a={j=g,u=#g/6,C=0,s=0,W={},ad=ad}
if ad then a.u=y('>I6',g,#g-5)-y('>I6',g)end
return a
end
local function cU(a,d)
local X=y('>I6',a.j)
local o,K=0,(#a.j-6)/12-1
while o<K do
local am=o+K
local Q=(am-am%2)/2
if y('>I6',a.j,12*Q+13)-X<d then o=Q+1 else K=Q end
end
local c,aN=y('>I6I6',a.j,12*o+7)
return c,aN-X
end
local function dy(a,t)
local o,K=0,(#a.j-6)/12
while o<K do
local am=o+K
local Q=(am-am%2)/2
if y('>I6',a.j,12*Q+7)<=t then o=Q+1 else K=Q end
end
return o
end
local function dz(a,d)
local g=a.bu[d]
if not g then
g=redis.call('HGET',KEYS[1],a.aH..a.s+d)
a.bu[d]=g
end
return g
end
local function ae(a,d)
if a.ad then return(cU(a,d))end
local cb=d-a.C
if cb>0 then return(y('>I6',a.j,6*cb-5))end
local bD=(d-1)%ag
return(y('>I6',dz(a,(d-1-bD)/ag),6*bD+1))
end
local function av(a)
if not a.av then a.av=redis.call('HGET',KEYS[1],a.aH)end
return a.av
end
local function dA(a)
if a.C>0 then return(y('>I6',av(a)))end
if a.ad and a.u>0 then return(y('>I6',a.j,7))end
return a.u>0 and(y('>I6',a.j))or nil
end
local function an(a,t)
local o,K=0,a.u
if K==0 or ae(a,K)<=t then return K end
local ab=a.W[t]
if ab then return ab end
if a.ad then
local aq=dy(a,t)
return aq==0 and 0 or y('>I6',a.j,12*aq+1)-y('>I6',a.j)
end
if a.C>0 and(a.j==''or y('>I6',a.j)>t)then
local g,i,aO=av(a),0,a.C/ag
while i<aO do
local am=i+aO
local Q=(am-am%2)/2
if y('>I6',g,6*Q+1)<=t then i=Q+1 else aO=Q end
end
if i==0 then
a.W[t]=0
return 0
end
o,K=ag*(i-1)+1,ag*i
else
o=a.C
end
while o<K do
local am=o+K
local Q=(am-am%2)/2
if ae(a,Q+1)<=t then o=Q+1 else K=Q end
end
a.W[t]=o
return o
end
local function cc(a)
local m={}
for d=0,a.C/ag-1 do
m[#m+1]=dz(a,d)
a.O[#a.O+1]=a.aH..a.s+d
end
m[#m+1]=a.j
a.s,a.C,a.av,a.bu=a.s+a.C/ag,0,'',{}
a.j=table.concat(m)
end
local function cd(a)
if a.ad then return end
if a.C>0 then cc(a)end
local m,F={H('>I6',0)},nil
for d=1,a.u do
local c=h(a.j,6*d-5,6*d)
if c~=F then m[#m+1]=c..H('>I6',d)else m[#m]=c..H('>I6',d)end
F=c
end
a.j,a.ad,a.W=table.concat(m),true,{}
end
local function ew(g,aP)
local m={}
for i=1,#g,12 do
local c,aN=y('>I6I6',g,i)
m[#m+1]=H('>I6I6',c,aN+aP)
end
return table.concat(m)
end
local function cV(a,c,aP)
local aq=dy(a,c)
local i=12*aq+7
local aN=y('>I6',a.j,i-6)
local aQ=h(a.j,1,i-1)
if aq>0 and y('>I6',a.j,i-12)==c then
aQ=h(a.j,1,i-13)
local cW=aN-y('>I6',a.j,i-18)
if aP<-cW then aP=-cW end
if aP>-cW then aQ=aQ..H('>I6I6',c,aN+aP)end
elseif aP>0 then
aQ=aQ..H('>I6I6',c,aN+aP)
else
return
end
a.j,a.u,a.W=aQ..ew(h(a.j,i),aP),a.u+aP,{}
end
local function dB(a,c,q)
if q>ev then cd(a)end
if a.ad then return cV(a,c,q)end
local d,af=an(a,c),H('>I6',c)
if q>1 then af=string.rep(af,q)end
if d==a.u then
a.j=a.j..af
else
if d<a.C then cc(a)end
local cb=6*(d-a.C)
a.j,a.W=h(a.j,1,cb)..af..h(a.j,cb+1),{}
end
a.u=a.u+q
end
local function ex(a,c,q)
if a.ad then return cV(a,c,-q)end
local F=an(a,c)
local s=F
while s>0 and F-s<q and ae(a,s)==c do s=s-1 end
if s==F then return end
if s<a.C then cc(a)end
a.j=h(a.j,1,6*(s-a.C))..h(a.j,6*(F-a.C)+1)
a.u,a.W=a.u-(F-s),{}
end
local function cX(a,z)
if z<=0 then return end
dx,a.W=true,{}
if a.ad then
local O,X,i=math.min(z,a.u),y('>I6',a.j),7
while i<=#a.j and y('>I6',a.j,i+6)-X<=O do i=i+12 end
a.j,a.u=H('>I6',X+O)..h(a.j,i),a.u-O
return
end
local aq=math.floor(math.min(z,a.C)/ag)
if aq>0 then
a.av=h(av(a),6*aq+1)
for d=0,aq-1 do a.O[#a.O+1]=a.aH..a.s+d end
a.s,a.C,a.u,a.bu=a.s+aq,a.C-aq*ag,a.u-aq*ag,{}
z=z-aq*ag
end
if a.C==0 then a.j,a.u=h(a.j,6*z+1),a.u-z end
end
local function cq(a)
if a.C>0 then cc(a)end
return bt(a.j,a.ad)
end
local function dC(b)
local ah,aw=b.f,b.r
if aw.u==0 then return ah end
if ah.ad or aw.ad then
local L,Y=cq(ah),cq(aw)
cd(L)
cd(Y)
local aC=y('>I6',Y.j)
for i=7,#Y.j,12 do
local c,aN=y('>I6I6',Y.j,i)
cV(L,c,aN-aC)
aC=aN
end
return L
end
local L={j=ah.j,u=ah.u,C=ah.C,s=ah.s,aH=ah.aH,bu=ah.bu}
L.av,L.O,L.W=ah.av,{},{}
local aQ=an(ah,(y('>I6',aw.j)))
if aQ<L.C then cc(L)end
local i,m=6*(aQ-L.C)+1,{h(L.j,1,6*(aQ-L.C))}
if i<=#L.j then
for d=1,aw.u do
local t,aO=ae(aw,d),i
while aO<=#L.j and y('>I6',L.j,aO)<=t do aO=aO+6 end
m[#m+1]=h(L.j,i,aO-1)
m[#m+1]=h(aw.j,6*d-5,6*d)
i=aO
end
m[#m+1]=h(L.j,i)
else
m[2]=aw.j
end
L.j,L.u=table.concat(m),ah.u+aw.u
return L
end
local function cr(e)
for E,b in ipairs(e.B)do ex(e.f and b.f or b.r,e.c,e.q)end
end
local function bE(e)
for E,b in ipairs(e.B)do dB(e.f and b.f or b.r,e.c,e.q)end
end
local function ce(bV,ey)
for d=1,#bV do if bV[d]==ey then return true end end
return false
end
local function dD(g)
local R,x={},1
while x<#g do
local aJ=au(g,x,2)
R[#R+1]=h(g,x+2,x+1+aJ)
x=x+2+aJ
end
return R
end
local function dE(b)
if not b.R then b.R=dD(b.g)end
return b.R
end
local function dF(b,g,c,W,aE,cs)
local V=c+(cs and 6+12*W or 6*W)
local at=V+(cs and 6+12*aE or 6*aE)
if at>#g+1 then error('length')end
b.f,b.r=bt(h(g,c,V-1),cs),bt(h(g,V,at-1),cs)
return at
end
local function cY(g,x)
local V=x+12+au(g,x+9,3)
local b={ao=au(g,x+1,3),U=au(g,x+4,5)}
b.g=h(g,x+12,V-1)
return b,V
end
local function ez()
if v(p)==65 then
local b,i=cY(p,1)
if(#p-i+1)%6~=0 then error('length')end
b.f,b.r,b.ac=bt(h(p,i)),bt(''),0
B[1]=b
return
end
if v(p)~=66 and v(p)~=67 then error('form')end
local bA,x=y('>I3',p,2),7
aM=y('>I2',p,5)
for d=1,bA do
local b,i=cY(p,x)
local ac,W,aE,c=y('>I2I4I4',p,i)
b.ac=ac
x=dF(b,p,c,W,aE,v(p,x)==82)
B[d]=b
end
A=h(p,x)
end
local function ct(e)
if(e.bF or#e.B)==0 then return e.c<=k-dv end
if not e.f then return e.c<=k-cp end
for E,b in ipairs(e.B)do
local s=dA(b.f)
if s and s<=e.c then return false end
end
return true
end
local function cu(g)
local al=v(g,11)
local e={c=au(g,1,7),q=au(g,8,3),f=al%2==1,o=al>=2}
e.B,e.bF={},au(g,12,2)
for d=1,e.bF do
local ac=au(g,12+2*d,2)
for E,b in ipairs(B)do
if b.ac==ac then e.B[#e.B+1]=b end
end
end
return e
end
local function bG(l)
if T[l]~=nil then return T[l]end
local g
if ap then
g=redis.call('HGET',KEYS[1],'i'..l)
else
local E,i=string.find(A,'\\255'..l..'\\254',1,true)
local V=i and string.find(A,'\\255',i,true)or 0
g=i and h(A,i+1,V-1)
end
local e=g and cu(g)
Z[l]=e~=nil
T[l]=e and not ct(e)and e or false
return T[l]
end
local function bH(l,e)
T[l],ba[l]=e or false,true
end
local function bI()
if dw then return end
dw=true
local function dG(l,g)
if T[l]==nil then
local e=cu(g)
Z[l]=true
T[l]=not ct(e)and e or false
if not T[l]then ba[l]=true end
end
end
if ap then
local aR=redis.call('HGETALL',KEYS[1])
for d=1,#aR,2 do
if v(aR[d])==105 then dG(h(aR[d],2),aR[d+1])end
end
else
for l,g in string.gmatch(A,'\\255([^\\254]*)\\254([^\\255]*)')do dG(l,g)end
end
end
local function cZ(R)
local bv,cv,cf={},{},{}
for E,as in ipairs(R)do
local bJ
for E,b in ipairs(B)do if ce(dE(b),as)then bJ=b end end
if not bJ then
cv[#cv+1]=as
elseif cf[bJ]then
table.insert(cf[bJ],as)
else
cf[bJ]={as}
bv[#bv+1]=bJ
end
end
local function dH(b)
b.ac,aM=aM,(aM+1)%16384
B[#B+1]=b
end
for d,b in ipairs(bv)do
if#cf[b]<#b.R then
bI()
local bK={R=cf[b],ao=b.ao,U=b.U}
bK.f,bK.r=cq(b.f),cq(b.r)
local bD={}
for E,as in ipairs(b.R)do if not ce(bK.R,as)then bD[#bD+1]=as end end
b.R,b.g=bD,nil
for l,e in pairs(T)do
if e and ce(e.B,b)then
table.insert(e.B,bK)
e.bF,ba[l]=#e.B,true
end
end
dH(bK)
bv[d]=bK
end
end
if#cv>0 then
dH({R=cv,ao=128,U=0,f=bt(''),r=bt('')})
bv[#bv+1]=B[#B]
end
return bv
end
local function eA()
local bL=redis.call('HGET',KEYS[1],'m')
local bA,x=y('>I3',bL,2),7
aM=y('>I2',bL,5)
for d=1,bA do
local b,i=cY(bL,x)
local ac,s,dI,W,aE,c=y('>I2I4I4I4I4',bL,i)
x=dF(b,bL,c,W,aE,v(bL,x)==82)
local f,C=b.f,dI*ag
f.u,f.C,f.s,f.bu,f.O=f.u+C,C,s,{},{}
f.aH,f.av,b.ac='f'..ac..':',dI==0 and''or nil,ac
B[d]=b
end
end
local function dJ(b,D)
if b.U==0 then return math.max(D,cp)end
return math.max(D,b.U)
end
local function dK(D)
for E,b in ipairs(B)do
local aS,s=k-dJ(b,D),dA(b.f)
if s and s<=aS then cX(b.f,an(b.f,aS))end
if b.r.u>0 then cX(b.r,an(b.r,k-cp))end
if b.U>0 and b.f.u>2*b.ao then
cX(b.f,an(b.f,k)-b.ao)
end
end
end
local function cw(b)
local f,r=b.f,b.r
if not f.ad and not r.ad then return'L'end
cd(f)
cd(r)
return'R'
end
local function cx(a)
return a.ad and(#a.j-6)/12 or a.u-a.C
end
local function da(bC,b)
local R=b.g
if not R then
local g={}
for d,as in ipairs(b.R)do g[d]=aG(#as,2)..as end
R=table.concat(g)
end
return bC..aG(b.ao,3)..aG(b.U,5)..aG(#R,3)..R
end
local function cg(e)
local bF,M={},0
for E,b in ipairs(e.B)do
if not b.O then
M=M+1
bF[M]=aG(b.ac,2)
end
end
local al=string.char((e.f and 1 or 0)+(e.o and 2 or 0))
return aG(e.c,7)..aG(e.q,3)..al..aG(M,2)..table.concat(bF)
end
local function eB(bw)
local eC,m=#A,{}
for l in pairs(ba)do
local I='\\255'..l..'\\254'
if Z[l]and not bw then
local i,V=string.find(A,I,1,true)
V=string.find(A,'\\255',V,true)or#A+1
A=h(A,1,i-1)..h(A,V)
end
if T[l]then m[#m+1]=I..cg(T[l])end
end
A=A..table.concat(m)
if A~=''and(dx or math.floor(#A/2048)>math.floor(eC/2048))then
A=string.gsub(A,'(\\255[^\\254]*\\254)([^\\255]*)',function(E,g)
if ct(cu(g))then return''end
end)
end
end
local function eD()
local aR=redis.call('HRANDFIELD',KEYS[1],3,'WITHVALUES')
for d=1,#aR,2 do
if v(aR[d])==105 and T[h(aR[d],2)]==nil and ct(cu(aR[d+1]))then
redis.call('HDEL',KEYS[1],aR[d])
end
end
end
local function eE(b)
local a=b.f
if not a.aH then
a.aH,a.bu,a.O,a.av='f'..b.ac..':',{},{},''
end
local i,af=1,{}
while not a.ad and#a.j-i+1>9*ag do
local g=h(a.j,i,i+6*ag-1)
redis.call('HSET',KEYS[1],a.aH..a.s+a.C/ag,g)
af[#af+1]=h(g,1,6)
a.C,i=a.C+ag,i+6*ag
end
if i>1 then
a.av=av(a)..table.concat(af)
a.j=h(a.j,i)
end
if#a.O>0 then
for d=1,#a.O do redis.call('HDEL',KEYS[1],a.O[d])end
end
if a.C==0 then
redis.call('HDEL',KEYS[1],a.aH)
elseif i>1 or#a.O>0 then
redis.call('HSET',KEYS[1],a.aH,a.av)
end
end
local function eF(M)
local m,dL={H('>cI3I2','H',#M,aM)},false
for E,b in ipairs(M)do cw(b)end
for E,b in ipairs(B)do if b.O or b.f.u>0 then eE(b)end end
for E,b in ipairs(M)do
local f,r=b.f,b.r
m[#m+1]=da(cw(b),b)
m[#m+1]=
H('>I2I4I4I4I4',b.ac,f.s,f.C/ag,cx(f),cx(r))
m[#m+1]=f.j
m[#m+1]=r.j
end
redis.call('HSET',KEYS[1],'m',table.concat(m))
for l in pairs(ba)do
if T[l]then
redis.call('HSET',KEYS[1],'i'..l,cg(T[l]))
dL=true
else
redis.call('HDEL',KEYS[1],'i'..l)
end
end
if dL then eD()end
end
local function eG(M,bM)
local m={}
if#M==1 and A==''and not bM and cw(M[1])=='L'then
m[1],m[2]=da('A',M[1]),M[1].f.j
else
local dM='B'
m[1]=''
for E,b in ipairs(M)do
local bC=cw(b)
if bC=='R'then dM='C'end
m[#m+1]=da(bC,b)
m[#m+1]=H('>I2I4I4',b.ac,cx(b.f),cx(b.r))
m[#m+1]=b.f.j
m[#m+1]=b.r.j
end
m[1]=H('>cI3I2',dM,#M,aM)
m[#m+1]=A
end
return table.concat(m)
end
local function eH(M)
local db=0
for E,b in ipairs(M)do
if b.f.C>0 then return false end
db=db+#b.f.j+#b.r.j
end
return db<bz/2 and redis.call('HLEN',KEYS[1])<=24
end
local function ch()
local D=ARGV[4]+0
dK(D)
local M,bM,aS={},false,k
for E,b in ipairs(B)do
local f,r=b.f,b.r
if f.u+r.u>0 then
M[#M+1]=b
bM=bM or r.u>0
D=dJ(b,D)
aS=math.max(aS,f.u>0 and ae(f,f.u)or 0,r.u>0 and ae(r,r.u)or 0)
else
b.O=true
end
end
local aD=bG('')
if aD then aS=math.max(aS,aD.c)end
local dc=#M==0 or aD
for l in pairs(ba)do
if T[l]then
aS=math.max(aS,T[l].c)
dc=dc or#T[l].B==0
end
end
local bw=ap
if bM then D=math.max(D,cp)elseif dc then D=math.max(D,dv)end
local dN=math.ceil(aS-k+D+D/32)
if ap and eH(M)then
bI()
for l,e in pairs(T)do ba[l]=e and true or nil end
redis.call('DEL',KEYS[1])
ap=false
end
if not ap then
eB(bw)
if#M==0 and A==''then
if p and not bw then redis.call('DEL',KEYS[1])end
return
end
local g=eG(M,bM)
if#g<=bz then
redis.call('SET',KEYS[1],g,'PX',dN)
return
end
bI()
for l,e in pairs(T)do ba[l]=e and true or nil end
if p and not bw then redis.call('DEL',KEYS[1])end
ap=true
end
eF(M)
redis.call('PEXPIRE',KEYS[1],dN)
end
if P==100 then return redis.call('DEL',KEYS[1])==1 and'1'or'0'end
if ap or p then
local eI=pcall(ap and eA or ez)
if not eI then return redis.error_reply('INVALIDSTATE the key holds something else than limits')end
end
local l=ARGV[6]~=''and ARGV[6]or nil
if P==104 then
if not p and not ap then return'0'end
dK(ARGV[4]+0)
for E,b in ipairs(B)do if b.f.u+b.r.u>0 then return'1'end end
bI()
for E,e in pairs(T)do if e then return'1'end end
return'0'
end
if P==120 then
local e=bG(l)
if not e then return'0'end
cr(e)
bH(l,nil)
ch()
return'1'
end
if P==115 then
for E,Y in ipairs(cjson.decode(ARGV[7]))do
if not bG(Y[1])then
local e={c=Y[2],f=Y[3],q=Y[4],o=false,B=cZ(Y[5])}
bE(e)
bH(Y[1],e)
end
end
ch()
return'1'
end
if P==98 then
local aC,dd=bG(''),ARGV[7]+0
bH('',dd>0 and{c=k+dd,q=1,f=true,o=false,B={}}or nil)
ch()
return(aC and aC.c>k and'1'or'0')..H('>I7',k+dd)
end
local ci,G,bb=ARGV[3],{},{}
local x=5+8*au(ci,2,3)
for d=1,au(ci,x,3)do
local i=x+3+12*(d-1)
local eJ,eK,eL,ai,aj,ak,bW,bX,bY,cH,cI,al=v(ci,i,i+11)
local n={az=(eJ*128+eK)*128+eL+1,aK=(ai*128+aj)*128+ak}
n.aA=al>=2 and aZ or n.aK
n.w,n.dO=(((bW*128+bX)*128+bY)*128+cH)*128+cI,al%2==1
G[d]=n
end
x=x+3+12*#G
for d=1,au(ci,x,3)do bb[d]=au(ci,x+3*d,3)+1 end
local bN,aV=B,{}
local g=h(J,13)
if#B==1 and B[1].g==g and#bb==0 then
for d=1,#G do aV[G[d].az]=B[1]end
else
local cy=dD(g)
if#bb>0 and#bb<#cy then
local R={}
for d,az in ipairs(bb)do R[d]=cy[az]end
cZ(R)
end
bN=cZ(cy)
for d,as in ipairs(cy)do
for E,b in ipairs(bN)do if ce(dE(b),as)then aV[d]=b end end
end
end
for E,n in ipairs(G)do
local b=aV[n.az]
if n.w>b.U then b.U=n.w end
if 2*n.aK>b.ao then b.ao=2*n.aK end
end
local dP,aY,cz,ca,ar=0,2e16,0,false,{}
local ay=ARGV[7]
if ay and ay~=''then
dP,aY=au(ay,1,7),au(ay,8,7)
if aY>2*du then aY=2e16 end
ca,cz=v(ay,15)%2==1,math.floor(v(ay,15)/2)
if#ay>15 then ar=cjson.decode(h(ay,16))end
end
local aD=bG('')
local cj=aD and aD.c>k and aD.c or 0
if cj>0 then
local F=#ar
ar[F+1],ar[F+2],ar[F+3]=0,cj,cj
end
local function dQ(t)
while true do
local bc=t
for d=1,#ar,3 do
if ar[d]<=t and t<ar[d+1]and ar[d+2]>bc then
bc=ar[d+2]
end
end
if bc==t then return t end
t=bc
end
end
local I=l and bG(l)or nil
if I then cr(I)end
local br,aL,de=P==116,P==102,P==70
local aE=P==114 or P==112
local aI=I and(aE or(br and I.f))
local q=I and I.q or au(dl,2,3)
local df=math.max(k,dP)
local bx=dQ(df)
local bd,aW,bw='',{},ap
if ap then
for d,n in ipairs(G)do
local a=aV[n.az].f
aW[d]=an(a,k)-an(a,k-n.w)
end
else
if I then bd='\\255'..l..'\\254'..cg(I)end
if cj>0 then bd=bd..'\\255\\254'..cg(aD)end
if aE and cz==2 then
bI()
for as,e in pairs(T)do
if e and e~=I and e.o and not e.f then
bd=bd..'\\255'..as..'\\254'..cg(e)
end
end
end
bd=(p and h(p,1,#p-#A)or'')..bd
end
local cA
local function ck()
local bO={}
cA={}
for E,n in ipairs(G)do
local b=aV[n.az]
bO[b]=bO[b]or(aL and b.f or dC(b))
cA[n.az]=bO[b]
end
end
local function dR(a,n,eM,t)
local N,w=n.aA-eM+1,n.w
if N<1 then return aZ end
if a.u<N then return t end
local s=an(a,t-w)
while a.ad and s+N<=a.u do
local aa,eN=cU(a,s+1)
local cl,eO=cU(a,s+N)
if cl-w>=t then return t end
if cl-aa<w then t=aa+w end
s=math.min(eN,eO-N+1)
end
while s+N<=a.u do
local cl=ae(a,s+N)
if cl-w>=t then break end
local aa=ae(a,s+1)
if cl-aa<w then t=aa+w end
s=s+1
end
return t
end
local function cm(n,t)return dR(cA[n.az],n,q,t)end
local function dg()
local L,aF=true,false
for E,n in ipairs(G)do
if cm(n,bx)>bx then
L=false
aF=aF or n.dO
end
end
return L,aF
end
local function eP(t)
for E,n in ipairs(G)do if cm(n,t)>t then return false end end
return true
end
local function dh()
local t=bx
while true do
local di
repeat
di=false
for E,n in ipairs(G)do
local bc=cm(n,t)
if bc>=aZ then return aZ end
if bc>t then t,di=bc,true end
end
until not di
local cB=dQ(t)
if cB==t or cB>=aZ then return cB end
t=cB
end
end
local function aC(ah,aw)
if ah.c~=aw.c then return ah.c<aw.c end
for d=1,math.min(#ah.l,#aw.l)do
local dS,dT=v(ah.l,d),v(aw.l,d)
if dS~=dT then return dS<dT end
end
return#ah.l<#aw.l
end
local cC={}
local function eQ(eR)
local o={}
bI()
for as,e in pairs(T)do
if e and e.o and not e.f and e~=I then
local dj=false
for E,b in ipairs(e.B)do dj=dj or ce(bN,b)end
if dj then o[#o+1]={l=as,c=e.c,e=e}end
end
end
if#o==0 then return end
table.sort(o,aC)
for E,Y in ipairs(o)do cr(Y.e)end
ck()
local E,aF=dg()
local by=dh()
if aF or by>=eR or by-df>aY then
for E,Y in ipairs(o)do bE(Y.e)end
return
end
for E,Y in ipairs(o)do
bE(Y.e)
ck()
local E,eS=dg()
if eS or not eP(by)then
cr(Y.e)
bH(Y.l,nil)
cC[#cC+1]=Y.l
end
end
return by
end
ck()
local L,aF=dg()
aF=aF and aE and not aI
local c=bx
if aI then
c=I.c
elseif de then
c=k
elseif not L then
c=dh()
if aE and cz==2 then
local by=eQ(aF and aZ or c)
if by then c,aF=by,false end
end
end
local bB={}
if ap then
ck()
for d,n in ipairs(G)do bB[d]=cm(n,bx)<=bx end
end
local bP=de or((br or aL)and not aI and c==k)
local r=c<=du
if aL then
r=r and not bP
else
r=r and aE and c-df<=aY and not aF
end
if br and not bP and not aI then
local bO={}
for E,az in ipairs(bb)do
if not bO[aV[az]]then dB(aV[az].f,k,q)end
bO[aV[az]]=true
end
if ap and#bb>0 then
ck()
c=dh()
end
end
local e=I
if bP then
e={c=k,q=q,f=true,o=I and I.o or false,B=bN}
elseif aL then
e=r and{c=c,q=q,f=false,o=I and I.o or false,B=bN}or nil
elseif r and not aI and P==114 then
e={c=c,q=q,f=ca,o=cz==1,B=bN}
end
local dU=de or aL or(P==114 and not aI and r)
or(br and not aI and(bP or#bb>0))
local dV=bP and'1'or(r and not aI)and'2'or'0'
if not bw then
if dU then
if e then bE(e)end
if l then bH(l,e)end
ch()
end
return'g'..aT..H('>I7',c)..dV..bd
end
local function eT()
for d,n in ipairs(G)do
local a,N,w=cA[n.az],n.aA-q+1,n.w
if N<1 then
if c>=aZ then return d end
elseif c<aZ and cm(n,c)==c then
local s=an(a,c-w-1)
if s+N<=a.u then
local aa=ae(a,s+1)
if aa+w==c and ae(a,s+N)-aa<w then return d end
end
end
end
return 0
end
local bo=0
if aF then
for d=#G,1,-1 do if G[d].dO and not bB[d]then bo=d end end
elseif c>(aI and k or bx)then
bo=eT()
end
local ab=e and e.f and e.c<=k
if ab then bE(e)end
local m,cD={},{}
local function eU(a,n)
local at=an(a,k)
local dk,c=at-an(a,k-n.w),at+1
while c<=a.u do
local t=ae(a,c)
if t>=k+n.w then break end
local F=an(a,t)
dk=math.max(dk,F-an(a,t-n.w))
c=F+1
end
return math.max(0,n.aK-dk)
end
for d,n in ipairs(G)do
local b=aV[n.az]
local f,dW=b.f,b.r
local O,at=an(f,k-n.w),an(f,k)
cD[b]=cD[b]or dC(b)
m[d]=H('>I4I4I4I4I7I7I1',aW[d],math.max(0,n.aK-at+O),
eU(cD[b],n),
dW.u-an(dW,k-n.w)+f.u-at,dR(cD[b],n,1,k),
O<at and ae(f,O+1)+n.w or k,bB[d]and 1 or 0)
end
if e and not ab then bE(e)end
for d=1,#cC do m[#m+1]='\\255'..cC[d]..'\\254'end
if l then bH(l,e)end
local al=(aI and 1 or 0)+(aI and I.f and 2 or 0)+(r and 4 or 0)
+(bP and I and I.f and 8 or 0)
if dU then ch()end
return'r'..aT..H('>I7',c)..dV..H('>I1I2I7',al,bo,cj)..table.concat(m)
end)()`
