/** Made of redis-long.lua, redis-quick.lua, redis-book.lua, redis-state.lua, redis-write.lua, redis-decide.lua, redis-rows.lua by scripts/build/lua.ts; change those, not this. */
export const scriptParts = [
  'redis-long.lua',
  'redis-quick.lua',
  'redis-book.lua',
  'redis-state.lua',
  'redis-write.lua',
  'redis-decide.lua',
  'redis-rows.lua',
] as const
export const scriptSha = '661e384655d79cbdcc8582f1246980c3b8c358ff'
export const script = `local cV,D,k=ARGV[1],ARGV[2],nil
local q,e,N,G=string.byte,string.sub,struct.pack,struct.unpack
local g,bp=ARGV[5],(ARGV[8]or 8192)+0
if g==''or not g then
local cW=redis.call('TIME')
local cX=cW[2]+0
g=cW[1]*1000+(cX-cX%1000)/1000
else
g=g+0
end
local aF=N('>I6',g)
local I,cp,cq,cr,ca=q(cV,1,5)
if ca==126 then
ca=nil
local bE=(function()
local aG,z,J=KEYS[1],ARGV[3],#D
local ax=redis.pcall('STRLEN',aG)
if type(ax)=='table'or ax<=bp or J==12 then return end
local O,v,aa=redis.call('GETRANGE',aG,0,J-1),ARGV[4]+0,D
if O~=D then
if q(O)~=65 or e(O,10)~=e(D,10)then return end
local aU,aV,aW,aX,aY,aZ,ba,bb=q(O,2,9)
local T,U,V,bc,bd,bF,bG,bH=q(D,2,9)
local aq=(((aX*128+aY)*128+aZ)*128+ba)*128+bb
local C=(((bc*128+bd)*128+bF)*128+bG)*128+bH
local dI=(T*128+U)*128+V>(aU*128+aV)*128+aW
aa='A'..e(dI and D or O,2,4)..e(C>aq and D or O,5)
if aq>v then v=aq end
end
local r,t,bI=(ax-J)/6,(cp*128+cq)*128+cr,q(z)
local function Q(c)
local l=J+6*c-6
return(G('>I6',redis.call('GETRANGE',aG,l,l+5)))
end
local A=Q(r)
if A>g or bI==49 then return end
local o,bJ,f=5+8*((q(z,2)*128+q(z,3))*128+q(z,4)),{},g
local bq=(q(z,o)*128+q(z,o+1))*128+q(z,o+2)
for c=1,bq do
local l=o+6+12*(c-1)
local T,U,V,bK,bL,bM,cs,ct,W=q(z,l,l+8)
local cY,C=(T*128+U)*128+V,(((bK*128+bL)*128+bM)*128+cs)*128+ct
local be=W>=2 and 9e15 or cY
local L,ar=be-t+1,g
if L<1 then
ar=9e15
elseif L<=r then
ar=Q(r-L+1)+C
end
if ar>f then f=ar end
bJ[c]={max=be,written=cY,window=C,free=ar}
end
local br=f<=g
local P=br and I==116
if not br and I==116 and bI~=48 then return end
local bs,R={},P and t or 0
local bf,m=0,{}
for c=1,bq do
local h=bJ[c]
local C,be=h.window,h.max
local as=bs[C]
if not as then
local w,X,p=0,r,g-C
if A<=p then w=r end
while w<X and X-w>48 do
local au=w+X
local af=(au-au%2)/2
if Q(af+1)<=p then w=af+1 else X=af end
end
if w<X then
local i,aj=redis.call('GETRANGE',aG,J+6*w,J+6*X-1),w
while w<X do
local au=w+X
local af=(au-au%2)/2
if G('>I6',i,6*(af-aj)+1)<=p then w=af+1 else X=af end
end
end
as,bs[C]=w,w
end
if h.free>g and h.free==f and bf==0 then bf=c end
local aL,cZ,da,cu=r-as,r+R-be,g,g
if be-aL-R<=0 then
da=be==0 and 9e15 or(cZ<r and Q(cZ+1)or g)+C
end
if aL>0 then cu=Q(as+1)+C elseif P then cu=g+C end
local db=math.max(0,h.written-aL-R)
m[c]=N('>I4I4I4I4I7I7I1',aL,db,db,0,da,cu,
aL+t<=be and 1 or 0)
end
if P then
local aM,T,U,V=v/8,q(aa,2,4)
local bg=(T*128+U)*128+V
if aa~=O then redis.call('SETRANGE',aG,0,aa)end
redis.call('APPEND',aG,t==1 and aF or string.rep(aF,t))
if r+t>2*bg then
redis.call('SET',aG,aa..redis.call('GETRANGE',aG,-6*bg,-1),'PX',math.ceil(v+aM))
elseif g-g%aM~=A-A%aM then
redis.call('PEXPIRE',aG,math.ceil(v+aM))
end
end
return'r'..aF..N('>I7',f)..(P and'1'or'0')..N('>I1I2I7',0,bf,0)
..table.concat(m)
end)()
if bE then return bE end
end
k=redis.pcall('GET',KEYS[1])
local ab=type(k)=='table'
if ab then
if not string.find(k.err,'WRONGTYPE',1,true)then return k end
elseif(I==116 or I==99)and not ca and not(k and#k>bp)then
local z,J,aj,v=ARGV[3],#D,k,ARGV[4]+0
if J==12 then
aj=nil
elseif not k then
aj=D
elseif e(k,1,J)~=D then
aj=nil
if q(k)==65 and e(k,10,J)==e(D,10)then
local aU,aV,aW,aX,aY,aZ,ba,bb=q(k,2,9)
local T,U,V,bc,bd,bF,bG,bH=q(D,2,9)
local u,cv=(aU*128+aV)*128+aW,(T*128+U)*128+V
local aq=(((aX*128+aY)*128+aZ)*128+ba)*128+bb
local C=(((bc*128+bd)*128+bF)*128+bG)*128+bH
aj='A'..e(cv>u and D or k,2,4)..e(C>aq and D or k,5,9)
..e(k,10)
if aq>v then v=aq end
end
end
local bI,cw,cx,cy=q(z,1,4)
if aj and bI~=49 then
local t=(cp*128+cq)*128+cr
local ax=#aj
local r,A,f=(ax-J)/6,0,g
if r>0 then A=G('>I6',aj,ax-5)end
for o=5,8*((cw*128+cx)*128+cy),8 do
local T,U,V,cz,cA,cB,cC,cD=q(z,o,o+7)
local L=(T*128+U)*128+V-t+1
if L>r then break end
if L<1 then
f=9e15
break
end
local C=(((cz*128+cA)*128+cB)*128+cC)*128+cD
local ar=(L==1 and A or(G('>I6',aj,ax-6*L+1)))+C
if ar>f then f=ar end
end
if A>g or f>g and I==116 and bI~=48 then
f=nil
elseif f>g or I==99 then
return'q'..aF..N('>I7',f)..'0'..(k or'')
end
if f then
local R=t==1 and aF or string.rep(aF,t)
local bh,ay=aj..R,aj~=k
if r+t>256 then
local T,U,V=q(aj,2,4)
local bg=(T*128+U)*128+V
if r+t>2*bg then
bh,ay=e(aj,1,J)..e(bh,-6*bg),true
end
end
local aM=v/8
if not ay and g-g%aM==A-A%aM then
redis.call('APPEND',KEYS[1],R)
else
redis.call('SET',KEYS[1],bh,'PX',math.ceil(v+aM))
end
return bh
end
end
end
local function av(bi,r)
local i=''
for x=1,r do
i=string.char(bi%128)..i
bi=math.floor(bi/128)
end
return i
end
local bE=not ab and(function()
local z,J,j=ARGV[3],#D,ARGV[6]
if j==''then j=nil end
local bj,bN,az=I==116,I==114,I==102
if not(bj or bN or az or I==99)or J==12 or q(z)~=48 then return end
local aa,aA,aB,r,an=D,'\\0\\0','\\0\\1',0,0
local P,B,u,aH,O='','','',k or'',nil
if k then
local cE,E=q(k),nil
if cE==65 and e(k,10,J)==e(D,10)then
O,P=e(k,2,9),e(k,J+1)
r=#P/6
elseif e(k,1,4)=='B\\0\\0\\1'and e(k,16,J+6)==e(D,10)then
O,aB,aA=e(k,8,15),e(k,5,6),e(k,J+7,J+8)
r,an=G('>I4I4',k,J+9)
E=J+16+6*r
P,B=e(k,J+17,E),e(k,E+1,E+6*an)
E=E+6*an
u,aH=e(k,E+1),e(k,1,E)
else
return
end
end
local x,ao=string.find(u,'\\255\\254',1,true)
if ao then
local aX,aY,aZ,ba,bb,dJ,dK=q(u,ao+1,ao+7)
if((((((aX*128+aY)*128+aZ)*128+ba)*128+bb)*128+dJ)*128+dK)>g then return end
end
if r>0 and G('>I6',P,6*r-5)>g then return end
local aN,bO,w,ac=1e18,false,false,nil
local ak=ARGV[7]
if ak and ak~=''then
local dL,dM,dN,dO,dP,dQ,dR,dS,dT,dU,dV,dW,dX,dY,W=q(ak,1,15)
if((((((dL*128+dM)*128+dN)*128+dO)*128+dP)*128+dQ)*128+dR)>g then return end
aN=(((((dS*128+dT)*128+dU)*128+dV)*128+dW)*128+dX)*128+dY
bO,w=W%2==1,W%4>=2
if#ak>15 then
ac=cjson.decode(e(ak,16))
for c=1,#ac,3 do
if ac[c]<=g and g<ac[c+1]then return end
end
end
end
local t,F,y,A=(cp*128+cq)*128+cr,'',nil,nil
if j then
F='\\255'..j..'\\254'
y,A=string.find(u,F,1,true)
end
if az then
if not y then return end
local aU,aV,aW,dZ,ea,eb,ec,bK,bL,bM,W,bc,bd=q(u,A+1,A+13)
if W%2==1 or bc~=0 or bd~=1 then return end
local f=(((((aU*128+aV)*128+aW)*128+dZ)*128+ea)*128+eb)*128+ec
t=(bK*128+bL)*128+bM
local cb,l=N('>I6',f),0
repeat l=string.find(B,cb,l+1,true)until not l or l%6==1
if not l then return end
B,an=e(B,1,l-1)..e(B,l+6*t),an-t
aH,w=aH..e(u,y,A+15),W>=2
u=e(u,1,y-1)..e(u,A+16)
elseif y or an>0 then
return
end
local f,cw,cx,cy=g,q(z,2,4)
for o=5,8*((cw*128+cx)*128+cy),8 do
local T,U,V,cz,cA,cB,cC,cD=q(z,o,o+7)
local L=(T*128+U)*128+V-t+1
if L<1 then return end
if L>r then break end
local ar=G('>I6',P,6*(r-L)+1)+(((cz*128+cA)*128+cB)*128+cC)*128+cD
if ar>f then f=ar end
end
local bk='1'
if f>g and bN or az and f>g then
if ac or an>0 or ca==42 then return end
bk='2'
elseif bN then
bk='2'
elseif f>g or not bj and not az then
bk='0'
end
if bN and f-g>aN then bk='0'end
local dc='g'..aF..N('>I7',f)..bk..aH
if bk=='0'then return dc end
local v,cb=ARGV[4]+0,N('>I6',f)
local R=t==1 and cb or string.rep(cb,t)
local aI=bO or not bN and bk=='1'
if aI then
P,r=P..R,r+t
else
B,an=R,t
if v<2678400000 then v=2678400000 end
end
if an>0 and aI and v<2678400000 then v=2678400000 end
aa=e(D,2)
if O and O~=e(D,2,9)then
local aU,aV,aW,aX,aY,aZ,ba,bb=q(O,1,8)
local T,U,V,bc,bd,bF,bG,bH=q(D,2,9)
local bg,cv=(aU*128+aV)*128+aW,(T*128+U)*128+V
local aq=(((aX*128+aY)*128+aZ)*128+ba)*128+bb
local C=(((bc*128+bd)*128+bF)*128+bG)*128+bH
aa=e(cv>bg and D or' '..O,2,4)..e(C>aq and D or' '..O,5,9)
..e(D,10)
if aq>v then v=aq end
end
local ed,ee,ef=q(aa,1,3)
if r>2*((ed*128+ee)*128+ef)then return end
local d=''
if j then
d=F..av(f,7)..av(t,3)..string.char((aI and 1 or 0)+(w and 2 or 0))..'\\0\\1'
..av(G('>I2',aA),2)
end
local bh='B\\0\\0\\1'..aB..'L'..aa..aA..N('>I4I4',r,an)..P..B..u..d
if#bh>bp then return end
local cF=f
if an>t or aI and an>0 then
local dd=G('>I6',B,#B-5)
if dd>cF then cF=dd end
end
redis.call('SET',KEYS[1],bh,'PX',math.ceil(cF-g+v+v/32))
return dc
end)()
if bE then return bE end
return(function()
local aO,de=9e15,281474976710655
local df,cc,S=86400000,31*86400000,math.ceil(bp/64)
local Y,K,O,aP,u,aB={},{},{},{},'',1
local dg,dh=false,false
local function ag(i,o,r)
local bi=0
for c=o,o+r-1 do bi=bi*128+q(i,c)end
return bi
end
local function aQ(i)
return{s=i,n=#i/6,old=0,first=0,counts={}}
end
local function di(a,c)
local i=a.cache[c]
if not i then
i=redis.call('HGET',KEYS[1],a.field..a.first+c)
a.cache[c]=i
end
return i
end
local function Q(a,c)
local bP=c-a.old
if bP>0 then return(G('>I6',a.s,6*bP-5))end
local bt=(c-1)%S
return(G('>I6',di(a,(c-1-bt)/S),6*bt+1))
end
local function cd(a)
if not a.directory then a.directory=redis.call('HGET',KEYS[1],a.field)end
return a.directory
end
local function dj(a)
if a.old>0 then return(G('>I6',cd(a)))end
return a.n>0 and(G('>I6',a.s))or nil
end
local function Z(a,p)
local w,X=0,a.n
if X==0 or Q(a,X)<=p then return X end
local P=a.counts[p]
if P then return P end
if a.old>0 and(a.s==''or G('>I6',a.s)>p)then
local i,l,aC=cd(a),0,a.old/S
while l<aC do
local au=l+aC
local af=(au-au%2)/2
if G('>I6',i,6*af+1)<=p then l=af+1 else aC=af end
end
if l==0 then
a.counts[p]=0
return 0
end
w,X=S*(l-1)+1,S*l
else
w=a.old
end
while w<X do
local au=w+X
local af=(au-au%2)/2
if Q(a,af+1)<=p then w=af+1 else X=af end
end
a.counts[p]=w
return w
end
local function ce(a)
local m={}
for c=0,a.old/S-1 do
m[#m+1]=di(a,c)
a.gone[#a.gone+1]=a.field..a.first+c
end
m[#m+1]=a.s
a.first,a.old,a.directory,a.cache=a.first+a.old/S,0,'',{}
a.s=table.concat(m)
end
local function dk(a,f,t)
local c,R=Z(a,f),N('>I6',f)
if t>1 then R=string.rep(R,t)end
if c==a.n then
a.s=a.s..R
else
if c<a.old then ce(a)end
local bP=6*(c-a.old)
a.s,a.counts=e(a.s,1,bP)..R..e(a.s,bP+1),{}
end
a.n=a.n+t
end
local function eg(a,f,t)
local A=Z(a,f)
local y=A
while y>0 and A-y<t and Q(a,y)==f do y=y-1 end
if y==A then return end
if y<a.old then ce(a)end
a.s=e(a.s,1,6*(y-a.old))..e(a.s,6*(A-a.old)+1)
a.n,a.counts=a.n-(A-y),{}
end
local function cG(a,r)
if r<=0 then return end
dh,a.counts=true,{}
local ay=math.floor(math.min(r,a.old)/S)
if ay>0 then
a.directory=e(cd(a),6*ay+1)
for c=0,ay-1 do a.gone[#a.gone+1]=a.field..a.first+c end
a.first,a.old,a.n,a.cache=a.first+ay,a.old-ay*S,a.n-ay*S,{}
r=r-ay*S
end
if a.old==0 then a.s,a.n=e(a.s,6*r+1),a.n-r end
end
local function dl(a)
if a.old>0 then ce(a)end
return aQ(a.s)
end
local function dm(b)
local ad,al=b.fired,b.booked
if al.n==0 then return ad end
local M={s=ad.s,n=ad.n,old=ad.old,first=ad.first,field=ad.field,cache=ad.cache}
M.directory,M.gone,M.counts=ad.directory,{},{}
local cH=Z(ad,(G('>I6',al.s)))
if cH<M.old then ce(M)end
local l,m=6*(cH-M.old)+1,{e(M.s,1,6*(cH-M.old))}
if l<=#M.s then
for c=1,al.n do
local p,aC=Q(al,c),l
while aC<=#M.s and G('>I6',M.s,aC)<=p do aC=aC+6 end
m[#m+1]=e(M.s,l,aC-1)
m[#m+1]=e(al.s,6*c-5,6*c)
l=aC
end
m[#m+1]=e(M.s,l)
else
m[2]=al.s
end
M.s,M.n=table.concat(m),ad.n+al.n
return M
end
local function cf(d)
for x,b in ipairs(d.lanes)do eg(d.fired and b.fired or b.booked,d.at,d.weight)end
end
local function bu(d)
for x,b in ipairs(d.lanes)do dk(d.fired and b.fired or b.booked,d.at,d.weight)end
end
local function bQ(bJ,eh)
for c=1,#bJ do if bJ[c]==eh then return true end end
return false
end
local function dn(i)
local am,o={},1
while o<#i do
local ax=ag(i,o,2)
am[#am+1]=e(i,o+2,o+1+ax)
o=o+2+ax
end
return am
end
local function dp(b)
if not b.names then b.names=dn(b.text)end
return b.names
end
local function cI(i,o)
local E=o+12+ag(i,o+9,3)
local b={retained=ag(i,o+1,3),longest=ag(i,o+4,5)}
b.text=e(i,o+12,E-1)
return b,E
end
local function ei()
if q(k)==65 then
local b,l=cI(k,1)
if(#k-l+1)%6~=0 then error('length')end
b.fired,b.booked,b.number=aQ(e(k,l)),aQ(''),0
Y[1]=b
return
end
if q(k)~=66 then error('form')end
local bq,o=G('>I3',k,2),7
aB=G('>I2',k,5)
for c=1,bq do
local b,l=cI(k,o)
local aA,aI,aJ,f=G('>I2I4I4',k,l)
local E=f+6*aI
o=E+6*aJ
b.fired,b.booked,b.number=aQ(e(k,f,E-1)),aQ(e(k,E,o-1)),aA
Y[c]=b
end
if o>#k+1 then error('length')end
u=e(k,o)
end
local function cg(d)
if(d.homes or#d.lanes)==0 then return d.at<=g-df end
if not d.fired then return d.at<=g-cc end
for x,b in ipairs(d.lanes)do
local y=dj(b.fired)
if y and y<=d.at then return false end
end
return true
end
local function ch(i)
local W=q(i,11)
local d={at=ag(i,1,7),weight=ag(i,8,3),fired=W%2==1,low=W>=2}
d.lanes,d.homes={},ag(i,12,2)
for c=1,d.homes do
local aA=ag(i,12+2*c,2)
for x,b in ipairs(Y)do
if b.number==aA then d.lanes[#d.lanes+1]=b end
end
end
return d
end
local function bv(j)
if K[j]~=nil then return K[j]end
local i
if ab then
i=redis.call('HGET',KEYS[1],'i'..j)
else
local x,l=string.find(u,'\\255'..j..'\\254',1,true)
local E=l and string.find(u,'\\255',l,true)or 0
i=l and e(u,l+1,E-1)
end
local d=i and ch(i)
O[j]=d~=nil
K[j]=d and not cg(d)and d or false
return K[j]
end
local function bw(j,d)
K[j],aP[j]=d or false,true
end
local function bx()
if dg then return end
dg=true
local function dq(j,i)
if K[j]==nil then
local d=ch(i)
O[j]=true
K[j]=not cg(d)and d or false
if not K[j]then aP[j]=true end
end
end
if ab then
local aD=redis.call('HGETALL',KEYS[1])
for c=1,#aD,2 do
if q(aD[c])==105 then dq(e(aD[c],2),aD[c+1])end
end
else
for j,i in string.gmatch(u,'\\255([^\\254]*)\\254([^\\255]*)')do dq(j,i)end
end
end
local function cJ(am)
local bl,ci,bR={},{},{}
for x,ae in ipairs(am)do
local by
for x,b in ipairs(Y)do if bQ(dp(b),ae)then by=b end end
if not by then
ci[#ci+1]=ae
elseif bR[by]then
table.insert(bR[by],ae)
else
bR[by]={ae}
bl[#bl+1]=by
end
end
local function dr(b)
b.number,aB=aB,(aB+1)%16384
Y[#Y+1]=b
end
for c,b in ipairs(bl)do
if#bR[b]<#b.names then
bx()
local bz={names=bR[b],retained=b.retained,longest=b.longest}
bz.fired,bz.booked=dl(b.fired),dl(b.booked)
local bt={}
for x,ae in ipairs(b.names)do if not bQ(bz.names,ae)then bt[#bt+1]=ae end end
b.names,b.text=bt,nil
for j,d in pairs(K)do
if d and bQ(d.lanes,b)then
table.insert(d.lanes,bz)
d.homes,aP[j]=#d.lanes,true
end
end
dr(bz)
bl[c]=bz
end
end
if#ci>0 then
dr({names=ci,retained=128,longest=0,fired=aQ(''),booked=aQ('')})
bl[#bl+1]=Y[#Y]
end
return bl
end
local function ej()
local bA=redis.call('HGET',KEYS[1],'m')
local bq,o=G('>I3',bA,2),7
aB=G('>I2',bA,5)
for c=1,bq do
local b,l=cI(bA,o)
local aA,y,ds,aI,aJ,f=G('>I2I4I4I4I4',bA,l)
local E=f+6*aI
o=E+6*aJ
local dt=ds*S
b.fired={s=e(bA,f,E-1),n=dt+aI,old=dt,first=y,cache={},gone={},counts={}}
b.fired.field,b.fired.directory='f'..aA..':',ds==0 and''or nil
b.booked,b.number=aQ(e(bA,E,o-1)),aA
Y[c]=b
end
end
local function du(b,v)
if b.longest==0 then return math.max(v,cc)end
return math.max(v,b.longest)
end
local function dv(v)
for x,b in ipairs(Y)do
local aE,y=g-du(b,v),dj(b.fired)
if y and y<=aE then cG(b.fired,Z(b.fired,aE))end
if b.booked.n>0 then cG(b.booked,Z(b.booked,g-cc))end
if b.longest>0 and b.fired.n>2*b.retained then
cG(b.fired,Z(b.fired,g)-b.retained)
end
end
end
local function cK(cE,b)
local am=b.text
if not am then
local i={}
for c,ae in ipairs(b.names)do i[c]=av(#ae,2)..ae end
am=table.concat(i)
end
return cE..av(b.retained,3)..av(b.longest,5)..av(#am,3)..am
end
local function bS(d)
local dw,H={},0
for x,b in ipairs(d.lanes)do
if not b.gone then
H=H+1
dw[H]=av(b.number,2)
end
end
local W=string.char((d.fired and 1 or 0)+(d.low and 2 or 0))
return av(d.at,7)..av(d.weight,3)..W..av(H,2)..table.concat(dw)
end
local function ek(bm)
local el,m=#u,{}
for j in pairs(aP)do
local F='\\255'..j..'\\254'
if O[j]and not bm then
local l,E=string.find(u,F,1,true)
E=string.find(u,'\\255',E,true)or#u+1
u=e(u,1,l-1)..e(u,E)
end
if K[j]then m[#m+1]=F..bS(K[j])end
end
u=u..table.concat(m)
if u~=''and(dh or math.floor(#u/2048)>math.floor(el/2048))then
u=string.gsub(u,'(\\255[^\\254]*\\254)([^\\255]*)',function(x,i)
if cg(ch(i))then return''end
end)
end
end
local function em()
local aD=redis.call('HRANDFIELD',KEYS[1],3,'WITHVALUES')
for c=1,#aD,2 do
if q(aD[c])==105 and K[e(aD[c],2)]==nil and cg(ch(aD[c+1]))then
redis.call('HDEL',KEYS[1],aD[c])
end
end
end
local function en(b)
local a=b.fired
if not a.field then
a.field,a.cache,a.gone,a.directory='f'..b.number..':',{},{},''
end
local l,R=1,{}
while#a.s-l+1>9*S do
local i=e(a.s,l,l+6*S-1)
redis.call('HSET',KEYS[1],a.field..a.first+a.old/S,i)
R[#R+1]=e(i,1,6)
a.old,l=a.old+S,l+6*S
end
if l>1 then
a.directory=cd(a)..table.concat(R)
a.s=e(a.s,l)
end
if#a.gone>0 then
for c=1,#a.gone do redis.call('HDEL',KEYS[1],a.gone[c])end
end
if a.old==0 then
redis.call('HDEL',KEYS[1],a.field)
elseif l>1 or#a.gone>0 then
redis.call('HSET',KEYS[1],a.field,a.directory)
end
end
local function eo(H)
local m,dx={N('>cI3I2','H',#H,aB)},false
for x,b in ipairs(Y)do if b.gone or b.fired.n>0 then en(b)end end
for x,b in ipairs(H)do
local ah,B=b.fired,b.booked
m[#m+1]=cK('L',b)
m[#m+1]=
N('>I2I4I4I4I4',b.number,ah.first,ah.old/S,ah.n-ah.old,B.n)
m[#m+1]=ah.s
m[#m+1]=B.s
end
redis.call('HSET',KEYS[1],'m',table.concat(m))
for j in pairs(aP)do
if K[j]then
redis.call('HSET',KEYS[1],'i'..j,bS(K[j]))
dx=true
else
redis.call('HDEL',KEYS[1],'i'..j)
end
end
if dx then em()end
end
local function ep(H,bB)
local m={}
if#H==1 and u==''and not bB then
m[1],m[2]=cK('A',H[1]),H[1].fired.s
else
m[1]=N('>cI3I2','B',#H,aB)
for x,b in ipairs(H)do
m[#m+1]=cK('L',b)
m[#m+1]=N('>I2I4I4',b.number,b.fired.n,b.booked.n)
m[#m+1]=b.fired.s
m[#m+1]=b.booked.s
end
m[#m+1]=u
end
return table.concat(m)
end
local function eq(H)
local cL=0
for x,b in ipairs(H)do
if b.fired.old>0 then return false end
cL=cL+#b.fired.s+#b.booked.s
end
return cL<bp/2 and redis.call('HLEN',KEYS[1])<=24
end
local function bT()
local v=ARGV[4]+0
dv(v)
local H,bB,aE={},false,g
for x,b in ipairs(Y)do
local ah,B=b.fired,b.booked
if ah.n+B.n>0 then
H[#H+1]=b
bB=bB or B.n>0
v=du(b,v)
aE=math.max(aE,ah.n>0 and Q(ah,ah.n)or 0,B.n>0 and Q(B,B.n)or 0)
else
b.gone=true
end
end
local ao=bv('')
if ao then aE=math.max(aE,ao.at)end
local cM=#H==0 or ao
for j in pairs(aP)do
if K[j]then
aE=math.max(aE,K[j].at)
cM=cM or#K[j].lanes==0
end
end
local bm=ab
if bB then v=math.max(v,cc)elseif cM then v=math.max(v,df)end
local dy=math.ceil(aE-g+v+v/32)
if ab and eq(H)then
bx()
for j,d in pairs(K)do aP[j]=d and true or nil end
redis.call('DEL',KEYS[1])
ab=false
end
if not ab then
ek(bm)
if#H==0 and u==''then
if k and not bm then redis.call('DEL',KEYS[1])end
return
end
local i=ep(H,bB)
if#i<=bp then
redis.call('SET',KEYS[1],i,'PX',dy)
return
end
bx()
for j,d in pairs(K)do aP[j]=d and true or nil end
if k and not bm then redis.call('DEL',KEYS[1])end
ab=true
end
eo(H)
redis.call('PEXPIRE',KEYS[1],dy)
end
if I==100 then return redis.call('DEL',KEYS[1])==1 and'1'or'0'end
if ab or k then
local er=pcall(ab and ej or ei)
if not er then return redis.error_reply('INVALIDSTATE the key holds something else than limits')end
end
local j=ARGV[6]~=''and ARGV[6]or nil
if I==104 then
if not k and not ab then return'0'end
dv(ARGV[4]+0)
for x,b in ipairs(Y)do if b.fired.n+b.booked.n>0 then return'1'end end
bx()
for x,d in pairs(K)do if d then return'1'end end
return'0'
end
if I==120 then
local d=bv(j)
if not d then return'0'end
cf(d)
bw(j,nil)
bT()
return'1'
end
if I==115 then
for x,ai in ipairs(cjson.decode(ARGV[7]))do
if not bv(ai[1])then
local d={at=ai[2],fired=ai[3],weight=ai[4],low=false,lanes=cJ(ai[5])}
bu(d)
bw(ai[1],d)
end
end
bT()
return'1'
end
if I==98 then
local aH,cN=bv(''),ARGV[7]+0
bw('',cN>0 and{at=g+cN,weight=1,fired=true,low=false,lanes={}}or nil)
bT()
return(aH and aH.at>g and'1'or'0')..N('>I7',g+cN)
end
local bU,z,aR=ARGV[3],{},{}
local o=5+8*ag(bU,2,3)
for c=1,ag(bU,o,3)do
local l=o+3+12*(c-1)
local es,et,eu,T,U,V,bK,bL,bM,cs,ct,W=q(bU,l,l+11)
local h={stream=(es*128+et)*128+eu+1,written=(T*128+U)*128+V}
h.max=W>=2 and aO or h.written
h.window,h.refuse=(((bK*128+bL)*128+bM)*128+cs)*128+ct,W%2==1
z[c]=h
end
o=o+3+12*#z
for c=1,ag(bU,o,3)do aR[c]=ag(bU,o+3*c,3)+1 end
local bC,aK=Y,{}
local i=e(D,13)
if#Y==1 and Y[1].text==i and#aR==0 then
for c=1,#z do aK[z[c].stream]=Y[1]end
else
local cj=dn(i)
if#aR>0 and#aR<#cj then
local am={}
for c,bV in ipairs(aR)do am[c]=cj[bV]end
cJ(am)
end
bC=cJ(cj)
for c,ae in ipairs(cj)do
for x,b in ipairs(bC)do if bQ(dp(b),ae)then aK[c]=b end end
end
end
for x,h in ipairs(z)do
local b=aK[h.stream]
if h.window>b.longest then b.longest=h.window end
if 2*h.written>b.retained then b.retained=2*h.written end
end
local dz,aN,ck,bO,ac=0,2e16,0,false,{}
local ak=ARGV[7]
if ak and ak~=''then
dz,aN=ag(ak,1,7),ag(ak,8,7)
if aN>2*de then aN=2e16 end
bO,ck=q(ak,15)%2==1,math.floor(q(ak,15)/2)
if#ak>15 then ac=cjson.decode(e(ak,16))end
end
local ao=bv('')
local bW=ao and ao.at>g and ao.at or 0
if bW>0 then
local A=#ac
ac[A+1],ac[A+2],ac[A+3]=0,bW,bW
end
local function dA(p)
while true do
local aS=p
for c=1,#ac,3 do
if ac[c]<=p and p<ac[c+1]and ac[c+2]>aS then
aS=ac[c+2]
end
end
if aS==p then return p end
p=aS
end
end
local F=j and bv(j)or nil
if F then cf(F)end
local bj,az,cO=I==116,I==102,I==70
local aJ=I==114 or I==112
local aw=F and(aJ or(bj and F.fired))
local t=F and F.weight or ag(cV,2,3)
local cP=math.max(g,dz)
local bn=dA(cP)
local aT,aL,bm='',{},ab
if ab then
for c,h in ipairs(z)do
local a=aK[h.stream].fired
aL[c]=Z(a,g)-Z(a,g-h.window)
end
else
if F then aT='\\255'..j..'\\254'..bS(F)end
if bW>0 then aT=aT..'\\255\\254'..bS(ao)end
if aJ and ck==2 then
bx()
for ae,d in pairs(K)do
if d and d~=F and d.low and not d.fired then
aT=aT..'\\255'..ae..'\\254'..bS(d)
end
end
end
aT=(k and e(k,1,#k-#u)or'')..aT
end
local cl
local function bX()
local bD={}
cl={}
for x,h in ipairs(z)do
local b=aK[h.stream]
bD[b]=bD[b]or(az and b.fired or dm(b))
cl[h.stream]=bD[b]
end
end
local function dB(a,h,ev,p)
local L,C=h.max-ev+1,h.window
if L<1 then return aO end
if a.n<L then return p end
local y=Z(a,p-C)
while y+L<=a.n do
local dC=Q(a,y+L)
if dC-C>=p then break end
local aa=Q(a,y+1)
if dC-aa<C then p=aa+C end
y=y+1
end
return p
end
local function bY(h,p)return dB(cl[h.stream],h,t,p)end
local function cQ()
local M,ap=true,false
for x,h in ipairs(z)do
if bY(h,bn)>bn then
M=false
ap=ap or h.refuse
end
end
return M,ap
end
local function ew(p)
for x,h in ipairs(z)do if bY(h,p)>p then return false end end
return true
end
local function cR()
local p=bn
while true do
local cS
repeat
cS=false
for x,h in ipairs(z)do
local aS=bY(h,p)
if aS>=aO then return aO end
if aS>p then p,cS=aS,true end
end
until not cS
local cm=dA(p)
if cm==p or cm>=aO then return cm end
p=cm
end
end
local function aH(ad,al)
if ad.at~=al.at then return ad.at<al.at end
for c=1,math.min(#ad.id,#al.id)do
local dD,dE=q(ad.id,c),q(al.id,c)
if dD~=dE then return dD<dE end
end
return#ad.id<#al.id
end
local cn={}
local function ex(ey)
local w={}
bx()
for ae,d in pairs(K)do
if d and d.low and not d.fired and d~=F then
local cT=false
for x,b in ipairs(d.lanes)do cT=cT or bQ(bC,b)end
if cT then w[#w+1]={id=ae,at=d.at,entry=d}end
end
end
if#w==0 then return end
table.sort(w,aH)
for x,ai in ipairs(w)do cf(ai.entry)end
bX()
local x,ap=cQ()
local bo=cR()
if ap or bo>=ey or bo-cP>aN then
for x,ai in ipairs(w)do bu(ai.entry)end
return
end
for x,ai in ipairs(w)do
bu(ai.entry)
bX()
local x,ez=cQ()
if ez or not ew(bo)then
cf(ai.entry)
bw(ai.id,nil)
cn[#cn+1]=ai.id
end
end
return bo
end
bX()
local M,ap=cQ()
ap=ap and aJ and not aw
local f=bn
if aw then
f=F.at
elseif cO then
f=g
elseif not M then
f=cR()
if aJ and ck==2 then
local bo=ex(ap and aO or f)
if bo then f,ap=bo,false end
end
end
local br={}
if ab then
bX()
for c,h in ipairs(z)do br[c]=bY(h,bn)<=bn end
end
local bZ=cO or((bj or az)and not aw and f==g)
local B=f<=de
if az then
B=B and not bZ
else
B=B and aJ and f-cP<=aN and not ap
end
if bj and not bZ and not aw then
local bD={}
for x,bV in ipairs(aR)do
if not bD[aK[bV]]then dk(aK[bV].fired,g,t)end
bD[aK[bV]]=true
end
if ab and#aR>0 then
bX()
f=cR()
end
end
local d=F
if bZ then
d={at=g,weight=t,fired=true,low=F and F.low or false,lanes=bC}
elseif az then
d=B and{at=f,weight=t,fired=false,low=F and F.low or false,lanes=bC}or nil
elseif B and not aw and I==114 then
d={at=f,weight=t,fired=bO,low=ck==1,lanes=bC}
end
local dF=cO or az or(I==114 and not aw and B)
or(bj and not aw and(bZ or#aR>0))
local dG=bZ and'1'or(B and not aw)and'2'or'0'
if not bm then
if dF then
if d then bu(d)end
if j then bw(j,d)end
bT()
end
return'g'..aF..N('>I7',f)..dG..aT
end
local function eA()
for c,h in ipairs(z)do
local a,L,C=cl[h.stream],h.max-t+1,h.window
if L<1 then
if f>=aO then return c end
elseif f<aO and bY(h,f)==f then
local y=Z(a,f-C-1)
if y+L<=a.n then
local aa=Q(a,y+1)
if aa+C==f and Q(a,y+L)-aa<C then return c end
end
end
end
return 0
end
local bf=0
if ap then
for c=#z,1,-1 do if z[c].refuse and not br[c]then bf=c end end
elseif f>(aw and g or bn)then
bf=eA()
end
local P=d and d.fired and d.at<=g
if P then bu(d)end
local m,co={},{}
local function eB(a,h)
local as=Z(a,g)
local cU,f=as-Z(a,g-h.window),as+1
while f<=a.n do
local p=Q(a,f)
if p>=g+h.window then break end
local A=Z(a,p)
cU=math.max(cU,A-Z(a,p-h.window))
f=A+1
end
return math.max(0,h.written-cU)
end
for c,h in ipairs(z)do
local b=aK[h.stream]
local ah,dH=b.fired,b.booked
local bs,as=Z(ah,g-h.window),Z(ah,g)
co[b]=co[b]or dm(b)
m[c]=N('>I4I4I4I4I7I7I1',aL[c],math.max(0,h.written-as+bs),
eB(co[b],h),
dH.n-Z(dH,g-h.window)+ah.n-as,dB(co[b],h,1,g),
bs<as and Q(ah,bs+1)+h.window or g,br[c]and 1 or 0)
end
if d and not P then bu(d)end
for c=1,#cn do m[#m+1]='\\255'..cn[c]..'\\254'end
if j then bw(j,d)end
local W=(aw and 1 or 0)+(aw and F.fired and 2 or 0)+(B and 4 or 0)
if dF then bT()end
return'r'..aF..N('>I7',f)..dG..N('>I1I2I7',W,bf,bW)..table.concat(m)
end)()`
