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
export const scriptSha = 'ae952adc868739ea27c7a441cb7a2c15f7e6b843'
export const script = `local dg,H,m=ARGV[1],ARGV[2],nil
local p,f,E,t=string.byte,string.sub,struct.pack,struct.unpack
local i,bt=ARGV[5],(ARGV[8]or 8192)+0
if i==''or not i then
local dh=redis.call('TIME')
local di=dh[2]+0
i=dh[1]*1000+(di-di%1000)/1000
else
i=i+0
end
local aM=E('>I6',i)
local M,cz,cA,cB,ch=p(dg,1,5)
if ch==126 then
ch=nil
local bJ=(function()
local aN,B,O=KEYS[1],ARGV[3],#H
local aB=redis.pcall('STRLEN',aN)
if type(aB)=='table'or aB<=bt or O==12 then return end
local T,y,U=redis.call('GETRANGE',aN,0,O-1),ARGV[4]+0,H
if T~=H then
if p(T)~=65 or f(T,10)~=f(H,10)then return end
local aX,aY,aZ,ba,bb,bc,bd,be=p(T,2,9)
local aa,ab,ac,bf,bg,bK,bL,bM=p(H,2,9)
local aw=(((ba*128+bb)*128+bc)*128+bd)*128+be
local D=(((bf*128+bg)*128+bK)*128+bL)*128+bM
local dV=(aa*128+ab)*128+ac>(aX*128+aY)*128+aZ
U='A'..f(dV and H or T,2,4)..f(D>aw and H or T,5)
if aw>y then y=aw end
end
local v,u,bN=(aB-O)/6,(cz*128+cA)*128+cB,p(B)
local function W(c)
local g=O+6*c-6
return(t('>I6',redis.call('GETRANGE',aN,g,g+5)))
end
local A=W(v)
if A>i or bN==49 then return end
local r,bO,e=5+8*((p(B,2)*128+p(B,3))*128+p(B,4)),{},i
local bu=(p(B,r)*128+p(B,r+1))*128+p(B,r+2)
for c=1,bu do
local g=r+6+12*(c-1)
local aa,ab,ac,bP,bQ,bR,cC,cD,ad=p(B,g,g+8)
local dj,D=(aa*128+ab)*128+ac,(((bP*128+bQ)*128+bR)*128+cC)*128+cD
local bh=ad>=2 and 9e15 or dj
local L,ax=bh-u+1,i
if L<1 then
ax=9e15
elseif L<=v then
ax=W(v-L+1)+D
end
if ax>e then e=ax end
bO[c]={max=bh,written=dj,window=D,free=ax}
end
local bv=e<=i
local V=bv and M==116
if not bv and M==116 and bN~=48 then return end
local aC,X={},V and u or 0
local bi,j=0,{}
for c=1,bu do
local k=bO[c]
local D,bh=k.window,k.max
local al=aC[D]
if not al then
local q,I,o=0,v,i-D
if A<=o then q=v end
while q<I and I-q>48 do
local ae=q+I
local N=(ae-ae%2)/2
if W(N+1)<=o then q=N+1 else I=N end
end
if q<I then
local h,R=redis.call('GETRANGE',aN,O+6*q,O+6*I-1),q
while q<I do
local ae=q+I
local N=(ae-ae%2)/2
if t('>I6',h,6*(N-R)+1)<=o then q=N+1 else I=N end
end
end
al,aC[D]=q,q
end
if k.free>i and k.free==e and bi==0 then bi=c end
local aP,dk,dl,cE=v-al,v+X-bh,i,i
if bh-aP-X<=0 then
dl=bh==0 and 9e15 or(dk<v and W(dk+1)or i)+D
end
if aP>0 then cE=W(al+1)+D elseif V then cE=i+D end
local dm=math.max(0,k.written-aP-X)
j[c]=E('>I4I4I4I4I7I7I1',aP,dm,dm,0,dl,cE,
aP+u<=bh and 1 or 0)
end
if V then
local aQ,aa,ab,ac=y/8,p(U,2,4)
local bj=(aa*128+ab)*128+ac
if U~=T then redis.call('SETRANGE',aN,0,U)end
redis.call('APPEND',aN,u==1 and aM or string.rep(aM,u))
if v+u>2*bj then
redis.call('SET',aN,U..redis.call('GETRANGE',aN,-6*bj,-1),'PX',math.ceil(y+aQ))
elseif i-i%aQ~=A-A%aQ then
redis.call('PEXPIRE',aN,math.ceil(y+aQ))
end
end
return'r'..aM..E('>I7',e)..(V and'1'or'0')..E('>I1I2I7',0,bi,0)
..table.concat(j)
end)()
if bJ then return bJ end
end
m=redis.pcall('GET',KEYS[1])
local ah=type(m)=='table'
if ah then
if not string.find(m.err,'WRONGTYPE',1,true)then return m end
elseif(M==116 or M==99)and not ch and not(m and#m>bt)then
local B,O,R,y=ARGV[3],#H,m,ARGV[4]+0
if O==12 then
R=nil
elseif not m then
R=H
elseif f(m,1,O)~=H then
R=nil
if p(m)==65 and f(m,10,O)==f(H,10)then
local aX,aY,aZ,ba,bb,bc,bd,be=p(m,2,9)
local aa,ab,ac,bf,bg,bK,bL,bM=p(H,2,9)
local x,cF=(aX*128+aY)*128+aZ,(aa*128+ab)*128+ac
local aw=(((ba*128+bb)*128+bc)*128+bd)*128+be
local D=(((bf*128+bg)*128+bK)*128+bL)*128+bM
R='A'..f(cF>x and H or m,2,4)..f(D>aw and H or m,5,9)
..f(m,10)
if aw>y then y=aw end
end
end
local bN,cG,cH,cI=p(B,1,4)
if R and bN~=49 then
local u=(cz*128+cA)*128+cB
local aB=#R
local v,A,e=(aB-O)/6,0,i
if v>0 then A=t('>I6',R,aB-5)end
for r=5,8*((cG*128+cH)*128+cI),8 do
local aa,ab,ac,cJ,cK,cL,cM,cN=p(B,r,r+7)
local L=(aa*128+ab)*128+ac-u+1
if L>v then break end
if L<1 then
e=9e15
break
end
local D=(((cJ*128+cK)*128+cL)*128+cM)*128+cN
local ax=(L==1 and A or(t('>I6',R,aB-6*L+1)))+D
if ax>e then e=ax end
end
if A>i or e>i and M==116 and bN~=48 then
e=nil
elseif e>i or M==99 then
return'q'..aM..E('>I7',e)..'0'..(m or'')
end
if e then
local X=u==1 and aM or string.rep(aM,u)
local bk,ai=R..X,R~=m
if v+u>256 then
local aa,ab,ac=p(R,2,4)
local bj=(aa*128+ab)*128+ac
if v+u>2*bj then
bk,ai=f(R,1,O)..f(bk,-6*bj),true
end
end
local aQ=y/8
if not ai and i-i%aQ==A-A%aQ then
redis.call('APPEND',KEYS[1],X)
else
redis.call('SET',KEYS[1],bk,'PX',math.ceil(y+aQ))
end
return bk
end
end
end
local function ay(bl,v)
local h=''
for z=1,v do
h=string.char(bl%128)..h
bl=math.floor(bl/128)
end
return h
end
local bJ=not ah and(function()
local B,O,l=ARGV[3],#H,ARGV[6]
if l==''then l=nil end
local bm,bS,aD=M==116,M==114,M==102
if not(bm or bS or aD or M==99)or O==12 or p(B)~=48 then return end
local U,aE,aF,v,aq=H,'\\0\\0','\\0\\1',0,0
local V,C,x,ar,T='','','',m or'',nil
if m then
local bw,Q=p(m),nil
if bw==65 and f(m,10,O)==f(H,10)then
T,V=f(m,2,9),f(m,O+1)
v=#V/6
elseif f(m,1,4)=='B\\0\\0\\1'and f(m,16,O+6)==f(H,10)then
T,aF,aE=f(m,8,15),f(m,5,6),f(m,O+7,O+8)
v,aq=t('>I4I4',m,O+9)
Q=O+16+6*v
V,C=f(m,O+17,Q),f(m,Q+1,Q+6*aq)
Q=Q+6*aq
x,ar=f(m,Q+1),f(m,1,Q)
else
return
end
end
local z,as=string.find(x,'\\255\\254',1,true)
if as then
local ba,bb,bc,bd,be,dW,dX=p(x,as+1,as+7)
if((((((ba*128+bb)*128+bc)*128+bd)*128+be)*128+dW)*128+dX)>i then return end
end
if v>0 and t('>I6',V,6*v-5)>i then return end
local aR,bT,q,aj=1e18,false,false,nil
local ao=ARGV[7]
if ao and ao~=''then
local dY,dZ,ea,eb,ec,ed,ee,ef,eg,eh,ei,ej,ek,el,ad=p(ao,1,15)
if((((((dY*128+dZ)*128+ea)*128+eb)*128+ec)*128+ed)*128+ee)>i then return end
aR=(((((ef*128+eg)*128+eh)*128+ei)*128+ej)*128+ek)*128+el
bT,q=ad%2==1,ad%4>=2
if#ao>15 then
aj=cjson.decode(f(ao,16))
for c=1,#aj,3 do
if aj[c]<=i and i<aj[c+1]then return end
end
end
end
local u,F,w,A=(cz*128+cA)*128+cB,'',nil,nil
if l then
F='\\255'..l..'\\254'
w,A=string.find(x,F,1,true)
end
if u>4 and M~=99 then return end
if aD then
if not w then return end
local aX,aY,aZ,em,en,eo,ep,bP,bQ,bR,ad,bf,bg=p(x,A+1,A+13)
if ad%2==1 or bf~=0 or bg~=1 then return end
local e=(((((aX*128+aY)*128+aZ)*128+em)*128+en)*128+eo)*128+ep
u=(bP*128+bQ)*128+bR
local ci,g=E('>I6',e),0
repeat g=string.find(C,ci,g+1,true)until not g or g%6==1
if not g then return end
C,aq=f(C,1,g-1)..f(C,g+6*u),aq-u
ar,q=ar..f(x,w,A+15),ad>=2
x=f(x,1,w-1)..f(x,A+16)
elseif w or aq>0 then
return
end
local e,cG,cH,cI=i,p(B,2,4)
for r=5,8*((cG*128+cH)*128+cI),8 do
local aa,ab,ac,cJ,cK,cL,cM,cN=p(B,r,r+7)
local L=(aa*128+ab)*128+ac-u+1
if L<1 then return end
if L>v then break end
local ax=t('>I6',V,6*(v-L)+1)+(((cJ*128+cK)*128+cL)*128+cM)*128+cN
if ax>e then e=ax end
end
local bn='1'
if e>i and bS or aD and e>i then
if aj or aq>0 or ch==42 then return end
bn='2'
elseif bS then
bn='2'
elseif e>i or not bm and not aD then
bn='0'
end
if bS and e-i>aR then bn='0'end
local dn='g'..aM..E('>I7',e)..bn..ar
if bn=='0'then return dn end
local y,ci=ARGV[4]+0,E('>I6',e)
local X=u==1 and ci or string.rep(ci,u)
local az=bT or not bS and bn=='1'
if az then
V,v=V..X,v+u
else
C,aq=X,u
if y<2678400000 then y=2678400000 end
end
if aq>0 and az and y<2678400000 then y=2678400000 end
U=f(H,2)
if T and T~=f(H,2,9)then
local aX,aY,aZ,ba,bb,bc,bd,be=p(T,1,8)
local aa,ab,ac,bf,bg,bK,bL,bM=p(H,2,9)
local bj,cF=(aX*128+aY)*128+aZ,(aa*128+ab)*128+ac
local aw=(((ba*128+bb)*128+bc)*128+bd)*128+be
local D=(((bf*128+bg)*128+bK)*128+bL)*128+bM
U=f(cF>bj and H or' '..T,2,4)..f(D>aw and H or' '..T,5,9)
..f(H,10)
if aw>y then y=aw end
end
local eq,er,es=p(U,1,3)
if v>2*((eq*128+er)*128+es)then return end
local d=''
if l then
d=F..ay(e,7)..ay(u,3)..string.char((az and 1 or 0)+(q and 2 or 0))..'\\0\\1'
..ay(t('>I2',aE),2)
end
local bk='B\\0\\0\\1'..aF..'L'..U..aE..E('>I4I4',v,aq)..V..C..x..d
if#bk>bt then return end
local cO=e
if aq>u or az and aq>0 then
local dp=t('>I6',C,#C-5)
if dp>cO then cO=dp end
end
redis.call('SET',KEYS[1],bk,'PX',math.ceil(cO-i+y+y/32))
return dn
end)()
if bJ then return bJ end
return(function()
local aS,dq=9e15,281474976710655
local dr,cj,Y,et=86400000,31*86400000,math.ceil(bt/64),4
local af,P,T,aT,x,aF={},{},{},{},'',1
local ds,dt=false,false
local function am(h,r,v)
local bl=0
for c=r,r+v-1 do bl=bl*128+p(h,c)end
return bl
end
local function bo(h,du)
local a={s=h,n=#h/6,old=0,first=0,counts={},runs=du}
if du then a.n=t('>I6',h,#h-5)-t('>I6',h)end
return a
end
local function cP(a,c)
local R=t('>I6',a.s)
local q,I=0,(#a.s-6)/12-1
while q<I do
local ae=q+I
local N=(ae-ae%2)/2
if t('>I6',a.s,12*N+13)-R<c then q=N+1 else I=N end
end
local e,aG=t('>I6I6',a.s,12*q+7)
return e,aG-R
end
local function dv(a,o)
local q,I=0,(#a.s-6)/12
while q<I do
local ae=q+I
local N=(ae-ae%2)/2
if t('>I6',a.s,12*N+7)<=o then q=N+1 else I=N end
end
return q
end
local function dw(a,c)
local h=a.cache[c]
if not h then
h=redis.call('HGET',KEYS[1],a.field..a.first+c)
a.cache[c]=h
end
return h
end
local function W(a,c)
if a.runs then return(cP(a,c))end
local bU=c-a.old
if bU>0 then return(t('>I6',a.s,6*bU-5))end
local bx=(c-1)%Y
return(t('>I6',dw(a,(c-1-bx)/Y),6*bx+1))
end
local function ck(a)
if not a.directory then a.directory=redis.call('HGET',KEYS[1],a.field)end
return a.directory
end
local function dx(a)
if a.old>0 then return(t('>I6',ck(a)))end
if a.runs and a.n>0 then return(t('>I6',a.s,7))end
return a.n>0 and(t('>I6',a.s))or nil
end
local function ag(a,o)
local q,I=0,a.n
if I==0 or W(a,I)<=o then return I end
local V=a.counts[o]
if V then return V end
if a.runs then
local ai=dv(a,o)
return ai==0 and 0 or t('>I6',a.s,12*ai+1)-t('>I6',a.s)
end
if a.old>0 and(a.s==''or t('>I6',a.s)>o)then
local h,g,aH=ck(a),0,a.old/Y
while g<aH do
local ae=g+aH
local N=(ae-ae%2)/2
if t('>I6',h,6*N+1)<=o then g=N+1 else aH=N end
end
if g==0 then
a.counts[o]=0
return 0
end
q,I=Y*(g-1)+1,Y*g
else
q=a.old
end
while q<I do
local ae=q+I
local N=(ae-ae%2)/2
if W(a,N+1)<=o then q=N+1 else I=N end
end
a.counts[o]=q
return q
end
local function bV(a)
local j={}
for c=0,a.old/Y-1 do
j[#j+1]=dw(a,c)
a.gone[#a.gone+1]=a.field..a.first+c
end
j[#j+1]=a.s
a.first,a.old,a.directory,a.cache=a.first+a.old/Y,0,'',{}
a.s=table.concat(j)
end
local function bW(a)
if a.runs then return end
if a.old>0 then bV(a)end
local j,A={E('>I6',0)},nil
for c=1,a.n do
local e=f(a.s,6*c-5,6*c)
if e~=A then j[#j+1]=e..E('>I6',c)else j[#j]=e..E('>I6',c)end
A=e
end
a.s,a.runs,a.counts=table.concat(j),true,{}
end
local function eu(h,aI)
local j={}
for g=1,#h,12 do
local e,aG=t('>I6I6',h,g)
j[#j+1]=E('>I6I6',e,aG+aI)
end
return table.concat(j)
end
local function cQ(a,e,aI)
local ai=dv(a,e)
local g=12*ai+7
local aG=t('>I6',a.s,g-6)
local aJ=f(a.s,1,g-1)
if ai>0 and t('>I6',a.s,g-12)==e then
aJ=f(a.s,1,g-13)
local cR=aG-t('>I6',a.s,g-18)
if aI<-cR then aI=-cR end
if aI>-cR then aJ=aJ..E('>I6I6',e,aG+aI)end
elseif aI>0 then
aJ=aJ..E('>I6I6',e,aG+aI)
else
return
end
a.s,a.n,a.counts=aJ..eu(f(a.s,g),aI),a.n+aI,{}
end
local function dy(a,e,u)
if u>et then bW(a)end
if a.runs then return cQ(a,e,u)end
local c,X=ag(a,e),E('>I6',e)
if u>1 then X=string.rep(X,u)end
if c==a.n then
a.s=a.s..X
else
if c<a.old then bV(a)end
local bU=6*(c-a.old)
a.s,a.counts=f(a.s,1,bU)..X..f(a.s,bU+1),{}
end
a.n=a.n+u
end
local function ev(a,e,u)
if a.runs then return cQ(a,e,-u)end
local A=ag(a,e)
local w=A
while w>0 and A-w<u and W(a,w)==e do w=w-1 end
if w==A then return end
if w<a.old then bV(a)end
a.s=f(a.s,1,6*(w-a.old))..f(a.s,6*(A-a.old)+1)
a.n,a.counts=a.n-(A-w),{}
end
local function cS(a,v)
if v<=0 then return end
dt,a.counts=true,{}
if a.runs then
local aC,R,g=math.min(v,a.n),t('>I6',a.s),7
while g<=#a.s and t('>I6',a.s,g+6)-R<=aC do g=g+12 end
a.s,a.n=E('>I6',R+aC)..f(a.s,g),a.n-aC
return
end
local ai=math.floor(math.min(v,a.old)/Y)
if ai>0 then
a.directory=f(ck(a),6*ai+1)
for c=0,ai-1 do a.gone[#a.gone+1]=a.field..a.first+c end
a.first,a.old,a.n,a.cache=a.first+ai,a.old-ai*Y,a.n-ai*Y,{}
v=v-ai*Y
end
if a.old==0 then a.s,a.n=f(a.s,6*v+1),a.n-v end
end
local function cl(a)
if a.old>0 then bV(a)end
return bo(a.s,a.runs)
end
local function dz(b)
local Z,an=b.fired,b.booked
if an.n==0 then return Z end
if Z.runs or an.runs then
local J,S=cl(Z),cl(an)
bW(J)
bW(S)
local ar=t('>I6',S.s)
for g=7,#S.s,12 do
local e,aG=t('>I6I6',S.s,g)
cQ(J,e,aG-ar)
ar=aG
end
return J
end
local J={s=Z.s,n=Z.n,old=Z.old,first=Z.first,field=Z.field,cache=Z.cache}
J.directory,J.gone,J.counts=Z.directory,{},{}
local aJ=ag(Z,(t('>I6',an.s)))
if aJ<J.old then bV(J)end
local g,j=6*(aJ-J.old)+1,{f(J.s,1,6*(aJ-J.old))}
if g<=#J.s then
for c=1,an.n do
local o,aH=W(an,c),g
while aH<=#J.s and t('>I6',J.s,aH)<=o do aH=aH+6 end
j[#j+1]=f(J.s,g,aH-1)
j[#j+1]=f(an.s,6*c-5,6*c)
g=aH
end
j[#j+1]=f(J.s,g)
else
j[2]=an.s
end
J.s,J.n=table.concat(j),Z.n+an.n
return J
end
local function cm(d)
for z,b in ipairs(d.lanes)do ev(d.fired and b.fired or b.booked,d.at,d.weight)end
end
local function by(d)
for z,b in ipairs(d.lanes)do dy(d.fired and b.fired or b.booked,d.at,d.weight)end
end
local function bX(bO,ew)
for c=1,#bO do if bO[c]==ew then return true end end
return false
end
local function dA(h)
local ap,r={},1
while r<#h do
local aB=am(h,r,2)
ap[#ap+1]=f(h,r+2,r+1+aB)
r=r+2+aB
end
return ap
end
local function dB(b)
if not b.names then b.names=dA(b.text)end
return b.names
end
local function dC(b,h,e,az,au,cn)
local Q=e+(cn and 6+12*az or 6*az)
local al=Q+(cn and 6+12*au or 6*au)
if al>#h+1 then error('length')end
b.fired,b.booked=bo(f(h,e,Q-1),cn),bo(f(h,Q,al-1),cn)
return al
end
local function cT(h,r)
local Q=r+12+am(h,r+9,3)
local b={retained=am(h,r+1,3),longest=am(h,r+4,5)}
b.text=f(h,r+12,Q-1)
return b,Q
end
local function ex()
if p(m)==65 then
local b,g=cT(m,1)
if(#m-g+1)%6~=0 then error('length')end
b.fired,b.booked,b.number=bo(f(m,g)),bo(''),0
af[1]=b
return
end
if p(m)~=66 and p(m)~=67 then error('form')end
local bu,r=t('>I3',m,2),7
aF=t('>I2',m,5)
for c=1,bu do
local b,g=cT(m,r)
local aE,az,au,e=t('>I2I4I4',m,g)
b.number=aE
r=dC(b,m,e,az,au,p(m,r)==82)
af[c]=b
end
x=f(m,r)
end
local function co(d)
if(d.homes or#d.lanes)==0 then return d.at<=i-dr end
if not d.fired then return d.at<=i-cj end
for z,b in ipairs(d.lanes)do
local w=dx(b.fired)
if w and w<=d.at then return false end
end
return true
end
local function cp(h)
local ad=p(h,11)
local d={at=am(h,1,7),weight=am(h,8,3),fired=ad%2==1,low=ad>=2}
d.lanes,d.homes={},am(h,12,2)
for c=1,d.homes do
local aE=am(h,12+2*c,2)
for z,b in ipairs(af)do
if b.number==aE then d.lanes[#d.lanes+1]=b end
end
end
return d
end
local function bz(l)
if P[l]~=nil then return P[l]end
local h
if ah then
h=redis.call('HGET',KEYS[1],'i'..l)
else
local z,g=string.find(x,'\\255'..l..'\\254',1,true)
local Q=g and string.find(x,'\\255',g,true)or 0
h=g and f(x,g+1,Q-1)
end
local d=h and cp(h)
T[l]=d~=nil
P[l]=d and not co(d)and d or false
return P[l]
end
local function bA(l,d)
P[l],aT[l]=d or false,true
end
local function bB()
if ds then return end
ds=true
local function dD(l,h)
if P[l]==nil then
local d=cp(h)
T[l]=true
P[l]=not co(d)and d or false
if not P[l]then aT[l]=true end
end
end
if ah then
local aK=redis.call('HGETALL',KEYS[1])
for c=1,#aK,2 do
if p(aK[c])==105 then dD(f(aK[c],2),aK[c+1])end
end
else
for l,h in string.gmatch(x,'\\255([^\\254]*)\\254([^\\255]*)')do dD(l,h)end
end
end
local function cU(ap)
local bp,cq,bY={},{},{}
for z,ak in ipairs(ap)do
local bC
for z,b in ipairs(af)do if bX(dB(b),ak)then bC=b end end
if not bC then
cq[#cq+1]=ak
elseif bY[bC]then
table.insert(bY[bC],ak)
else
bY[bC]={ak}
bp[#bp+1]=bC
end
end
local function dE(b)
b.number,aF=aF,(aF+1)%16384
af[#af+1]=b
end
for c,b in ipairs(bp)do
if#bY[b]<#b.names then
bB()
local bD={names=bY[b],retained=b.retained,longest=b.longest}
bD.fired,bD.booked=cl(b.fired),cl(b.booked)
local bx={}
for z,ak in ipairs(b.names)do if not bX(bD.names,ak)then bx[#bx+1]=ak end end
b.names,b.text=bx,nil
for l,d in pairs(P)do
if d and bX(d.lanes,b)then
table.insert(d.lanes,bD)
d.homes,aT[l]=#d.lanes,true
end
end
dE(bD)
bp[c]=bD
end
end
if#cq>0 then
dE({names=cq,retained=128,longest=0,fired=bo(''),booked=bo('')})
bp[#bp+1]=af[#af]
end
return bp
end
local function ey()
local bE=redis.call('HGET',KEYS[1],'m')
local bu,r=t('>I3',bE,2),7
aF=t('>I2',bE,5)
for c=1,bu do
local b,g=cT(bE,r)
local aE,w,dF,az,au,e=t('>I2I4I4I4I4',bE,g)
r=dC(b,bE,e,az,au,p(bE,r)==82)
local G,dG=b.fired,dF*Y
G.n,G.old,G.first,G.cache,G.gone=G.n+dG,dG,w,{},{}
G.field,G.directory,b.number='f'..aE..':',dF==0 and''or nil,aE
af[c]=b
end
end
local function dH(b,y)
if b.longest==0 then return math.max(y,cj)end
return math.max(y,b.longest)
end
local function dI(y)
for z,b in ipairs(af)do
local aL,w=i-dH(b,y),dx(b.fired)
if w and w<=aL then cS(b.fired,ag(b.fired,aL))end
if b.booked.n>0 then cS(b.booked,ag(b.booked,i-cj))end
if b.longest>0 and b.fired.n>2*b.retained then
cS(b.fired,ag(b.fired,i)-b.retained)
end
end
end
local function cr(b)
local G,C=b.fired,b.booked
if not G.runs and not C.runs then return'L'end
bW(G)
bW(C)
return'R'
end
local function cs(a)
return a.runs and(#a.s-6)/12 or a.n-a.old
end
local function cV(bw,b)
local ap=b.text
if not ap then
local h={}
for c,ak in ipairs(b.names)do h[c]=ay(#ak,2)..ak end
ap=table.concat(h)
end
return bw..ay(b.retained,3)..ay(b.longest,5)..ay(#ap,3)..ap
end
local function bZ(d)
local dJ,K={},0
for z,b in ipairs(d.lanes)do
if not b.gone then
K=K+1
dJ[K]=ay(b.number,2)
end
end
local ad=string.char((d.fired and 1 or 0)+(d.low and 2 or 0))
return ay(d.at,7)..ay(d.weight,3)..ad..ay(K,2)..table.concat(dJ)
end
local function ez(bq)
local eA,j=#x,{}
for l in pairs(aT)do
local F='\\255'..l..'\\254'
if T[l]and not bq then
local g,Q=string.find(x,F,1,true)
Q=string.find(x,'\\255',Q,true)or#x+1
x=f(x,1,g-1)..f(x,Q)
end
if P[l]then j[#j+1]=F..bZ(P[l])end
end
x=x..table.concat(j)
if x~=''and(dt or math.floor(#x/2048)>math.floor(eA/2048))then
x=string.gsub(x,'(\\255[^\\254]*\\254)([^\\255]*)',function(z,h)
if co(cp(h))then return''end
end)
end
end
local function eB()
local aK=redis.call('HRANDFIELD',KEYS[1],3,'WITHVALUES')
for c=1,#aK,2 do
if p(aK[c])==105 and P[f(aK[c],2)]==nil and co(cp(aK[c+1]))then
redis.call('HDEL',KEYS[1],aK[c])
end
end
end
local function eC(b)
local a=b.fired
if not a.field then
a.field,a.cache,a.gone,a.directory='f'..b.number..':',{},{},''
end
local g,X=1,{}
while not a.runs and#a.s-g+1>9*Y do
local h=f(a.s,g,g+6*Y-1)
redis.call('HSET',KEYS[1],a.field..a.first+a.old/Y,h)
X[#X+1]=f(h,1,6)
a.old,g=a.old+Y,g+6*Y
end
if g>1 then
a.directory=ck(a)..table.concat(X)
a.s=f(a.s,g)
end
if#a.gone>0 then
for c=1,#a.gone do redis.call('HDEL',KEYS[1],a.gone[c])end
end
if a.old==0 then
redis.call('HDEL',KEYS[1],a.field)
elseif g>1 or#a.gone>0 then
redis.call('HSET',KEYS[1],a.field,a.directory)
end
end
local function eD(K)
local j,dK={E('>cI3I2','H',#K,aF)},false
for z,b in ipairs(K)do cr(b)end
for z,b in ipairs(af)do if b.gone or b.fired.n>0 then eC(b)end end
for z,b in ipairs(K)do
local G,C=b.fired,b.booked
j[#j+1]=cV(cr(b),b)
j[#j+1]=
E('>I2I4I4I4I4',b.number,G.first,G.old/Y,cs(G),cs(C))
j[#j+1]=G.s
j[#j+1]=C.s
end
redis.call('HSET',KEYS[1],'m',table.concat(j))
for l in pairs(aT)do
if P[l]then
redis.call('HSET',KEYS[1],'i'..l,bZ(P[l]))
dK=true
else
redis.call('HDEL',KEYS[1],'i'..l)
end
end
if dK then eB()end
end
local function eE(K,bF)
local j={}
if#K==1 and x==''and not bF and cr(K[1])=='L'then
j[1],j[2]=cV('A',K[1]),K[1].fired.s
else
local dL='B'
j[1]=''
for z,b in ipairs(K)do
local bw=cr(b)
if bw=='R'then dL='C'end
j[#j+1]=cV(bw,b)
j[#j+1]=E('>I2I4I4',b.number,cs(b.fired),cs(b.booked))
j[#j+1]=b.fired.s
j[#j+1]=b.booked.s
end
j[1]=E('>cI3I2',dL,#K,aF)
j[#j+1]=x
end
return table.concat(j)
end
local function eF(K)
local cW=0
for z,b in ipairs(K)do
if b.fired.old>0 then return false end
cW=cW+#b.fired.s+#b.booked.s
end
return cW<bt/2 and redis.call('HLEN',KEYS[1])<=24
end
local function ca()
local y=ARGV[4]+0
dI(y)
local K,bF,aL={},false,i
for z,b in ipairs(af)do
local G,C=b.fired,b.booked
if G.n+C.n>0 then
K[#K+1]=b
bF=bF or C.n>0
y=dH(b,y)
aL=math.max(aL,G.n>0 and W(G,G.n)or 0,C.n>0 and W(C,C.n)or 0)
else
b.gone=true
end
end
local as=bz('')
if as then aL=math.max(aL,as.at)end
local cX=#K==0 or as
for l in pairs(aT)do
if P[l]then
aL=math.max(aL,P[l].at)
cX=cX or#P[l].lanes==0
end
end
local bq=ah
if bF then y=math.max(y,cj)elseif cX then y=math.max(y,dr)end
local dM=math.ceil(aL-i+y+y/32)
if ah and eF(K)then
bB()
for l,d in pairs(P)do aT[l]=d and true or nil end
redis.call('DEL',KEYS[1])
ah=false
end
if not ah then
ez(bq)
if#K==0 and x==''then
if m and not bq then redis.call('DEL',KEYS[1])end
return
end
local h=eE(K,bF)
if#h<=bt then
redis.call('SET',KEYS[1],h,'PX',dM)
return
end
bB()
for l,d in pairs(P)do aT[l]=d and true or nil end
if m and not bq then redis.call('DEL',KEYS[1])end
ah=true
end
eD(K)
redis.call('PEXPIRE',KEYS[1],dM)
end
if M==100 then return redis.call('DEL',KEYS[1])==1 and'1'or'0'end
if ah or m then
local eG=pcall(ah and ey or ex)
if not eG then return redis.error_reply('INVALIDSTATE the key holds something else than limits')end
end
local l=ARGV[6]~=''and ARGV[6]or nil
if M==104 then
if not m and not ah then return'0'end
dI(ARGV[4]+0)
for z,b in ipairs(af)do if b.fired.n+b.booked.n>0 then return'1'end end
bB()
for z,d in pairs(P)do if d then return'1'end end
return'0'
end
if M==120 then
local d=bz(l)
if not d then return'0'end
cm(d)
bA(l,nil)
ca()
return'1'
end
if M==115 then
for z,S in ipairs(cjson.decode(ARGV[7]))do
if not bz(S[1])then
local d={at=S[2],fired=S[3],weight=S[4],low=false,lanes=cU(S[5])}
by(d)
bA(S[1],d)
end
end
ca()
return'1'
end
if M==98 then
local ar,cY=bz(''),ARGV[7]+0
bA('',cY>0 and{at=i+cY,weight=1,fired=true,low=false,lanes={}}or nil)
ca()
return(ar and ar.at>i and'1'or'0')..E('>I7',i+cY)
end
local cb,B,aU=ARGV[3],{},{}
local r=5+8*am(cb,2,3)
for c=1,am(cb,r,3)do
local g=r+3+12*(c-1)
local eH,eI,eJ,aa,ab,ac,bP,bQ,bR,cC,cD,ad=p(cb,g,g+11)
local k={stream=(eH*128+eI)*128+eJ+1,written=(aa*128+ab)*128+ac}
k.max=ad>=2 and aS or k.written
k.window,k.refuse=(((bP*128+bQ)*128+bR)*128+cC)*128+cD,ad%2==1
B[c]=k
end
r=r+3+12*#B
for c=1,am(cb,r,3)do aU[c]=am(cb,r+3*c,3)+1 end
local bG,aO=af,{}
local h=f(H,13)
if#af==1 and af[1].text==h and#aU==0 then
for c=1,#B do aO[B[c].stream]=af[1]end
else
local ct=dA(h)
if#aU>0 and#aU<#ct then
local ap={}
for c,cc in ipairs(aU)do ap[c]=ct[cc]end
cU(ap)
end
bG=cU(ct)
for c,ak in ipairs(ct)do
for z,b in ipairs(bG)do if bX(dB(b),ak)then aO[c]=b end end
end
end
for z,k in ipairs(B)do
local b=aO[k.stream]
if k.window>b.longest then b.longest=k.window end
if 2*k.written>b.retained then b.retained=2*k.written end
end
local dN,aR,cu,bT,aj=0,2e16,0,false,{}
local ao=ARGV[7]
if ao and ao~=''then
dN,aR=am(ao,1,7),am(ao,8,7)
if aR>2*dq then aR=2e16 end
bT,cu=p(ao,15)%2==1,math.floor(p(ao,15)/2)
if#ao>15 then aj=cjson.decode(f(ao,16))end
end
local as=bz('')
local cd=as and as.at>i and as.at or 0
if cd>0 then
local A=#aj
aj[A+1],aj[A+2],aj[A+3]=0,cd,cd
end
local function dO(o)
while true do
local aV=o
for c=1,#aj,3 do
if aj[c]<=o and o<aj[c+1]and aj[c+2]>aV then
aV=aj[c+2]
end
end
if aV==o then return o end
o=aV
end
end
local F=l and bz(l)or nil
if F then cm(F)end
local bm,aD,cZ=M==116,M==102,M==70
local au=M==114 or M==112
local aA=F and(au or(bm and F.fired))
local u=F and F.weight or am(dg,2,3)
local da=math.max(i,dN)
local br=dO(da)
local aW,aP,bq='',{},ah
if ah then
for c,k in ipairs(B)do
local a=aO[k.stream].fired
aP[c]=ag(a,i)-ag(a,i-k.window)
end
else
if F then aW='\\255'..l..'\\254'..bZ(F)end
if cd>0 then aW=aW..'\\255\\254'..bZ(as)end
if au and cu==2 then
bB()
for ak,d in pairs(P)do
if d and d~=F and d.low and not d.fired then
aW=aW..'\\255'..ak..'\\254'..bZ(d)
end
end
end
aW=(m and f(m,1,#m-#x)or'')..aW
end
local cv
local function ce()
local bH={}
cv={}
for z,k in ipairs(B)do
local b=aO[k.stream]
bH[b]=bH[b]or(aD and b.fired or dz(b))
cv[k.stream]=bH[b]
end
end
local function dP(a,k,eK,o)
local L,D=k.max-eK+1,k.window
if L<1 then return aS end
if a.n<L then return o end
local w=ag(a,o-D)
while a.runs and w+L<=a.n do
local U,eL=cP(a,w+1)
local cf,eM=cP(a,w+L)
if cf-D>=o then return o end
if cf-U<D then o=U+D end
w=math.min(eL,eM-L+1)
end
while w+L<=a.n do
local cf=W(a,w+L)
if cf-D>=o then break end
local U=W(a,w+1)
if cf-U<D then o=U+D end
w=w+1
end
return o
end
local function cg(k,o)return dP(cv[k.stream],k,u,o)end
local function db()
local J,av=true,false
for z,k in ipairs(B)do
if cg(k,br)>br then
J=false
av=av or k.refuse
end
end
return J,av
end
local function eN(o)
for z,k in ipairs(B)do if cg(k,o)>o then return false end end
return true
end
local function dc()
local o=br
while true do
local dd
repeat
dd=false
for z,k in ipairs(B)do
local aV=cg(k,o)
if aV>=aS then return aS end
if aV>o then o,dd=aV,true end
end
until not dd
local cw=dO(o)
if cw==o or cw>=aS then return cw end
o=cw
end
end
local function ar(Z,an)
if Z.at~=an.at then return Z.at<an.at end
for c=1,math.min(#Z.id,#an.id)do
local dQ,dR=p(Z.id,c),p(an.id,c)
if dQ~=dR then return dQ<dR end
end
return#Z.id<#an.id
end
local cx={}
local function eO(eP)
local q={}
bB()
for ak,d in pairs(P)do
if d and d.low and not d.fired and d~=F then
local de=false
for z,b in ipairs(d.lanes)do de=de or bX(bG,b)end
if de then q[#q+1]={id=ak,at=d.at,entry=d}end
end
end
if#q==0 then return end
table.sort(q,ar)
for z,S in ipairs(q)do cm(S.entry)end
ce()
local z,av=db()
local bs=dc()
if av or bs>=eP or bs-da>aR then
for z,S in ipairs(q)do by(S.entry)end
return
end
for z,S in ipairs(q)do
by(S.entry)
ce()
local z,eQ=db()
if eQ or not eN(bs)then
cm(S.entry)
bA(S.id,nil)
cx[#cx+1]=S.id
end
end
return bs
end
ce()
local J,av=db()
av=av and au and not aA
local e=br
if aA then
e=F.at
elseif cZ then
e=i
elseif not J then
e=dc()
if au and cu==2 then
local bs=eO(av and aS or e)
if bs then e,av=bs,false end
end
end
local bv={}
if ah then
ce()
for c,k in ipairs(B)do bv[c]=cg(k,br)<=br end
end
local bI=cZ or((bm or aD)and not aA and e==i)
local C=e<=dq
if aD then
C=C and not bI
else
C=C and au and e-da<=aR and not av
end
if bm and not bI and not aA then
local bH={}
for z,cc in ipairs(aU)do
if not bH[aO[cc]]then dy(aO[cc].fired,i,u)end
bH[aO[cc]]=true
end
if ah and#aU>0 then
ce()
e=dc()
end
end
local d=F
if bI then
d={at=i,weight=u,fired=true,low=F and F.low or false,lanes=bG}
elseif aD then
d=C and{at=e,weight=u,fired=false,low=F and F.low or false,lanes=bG}or nil
elseif C and not aA and M==114 then
d={at=e,weight=u,fired=bT,low=cu==1,lanes=bG}
end
local dS=cZ or aD or(M==114 and not aA and C)
or(bm and not aA and(bI or#aU>0))
local dT=bI and'1'or(C and not aA)and'2'or'0'
if not bq then
if dS then
if d then by(d)end
if l then bA(l,d)end
ca()
end
return'g'..aM..E('>I7',e)..dT..aW
end
local function eR()
for c,k in ipairs(B)do
local a,L,D=cv[k.stream],k.max-u+1,k.window
if L<1 then
if e>=aS then return c end
elseif e<aS and cg(k,e)==e then
local w=ag(a,e-D-1)
if w+L<=a.n then
local U=W(a,w+1)
if U+D==e and W(a,w+L)-U<D then return c end
end
end
end
return 0
end
local bi=0
if av then
for c=#B,1,-1 do if B[c].refuse and not bv[c]then bi=c end end
elseif e>(aA and i or br)then
bi=eR()
end
local V=d and d.fired and d.at<=i
if V then by(d)end
local j,cy={},{}
local function eS(a,k)
local al=ag(a,i)
local df,e=al-ag(a,i-k.window),al+1
while e<=a.n do
local o=W(a,e)
if o>=i+k.window then break end
local A=ag(a,o)
df=math.max(df,A-ag(a,o-k.window))
e=A+1
end
return math.max(0,k.written-df)
end
for c,k in ipairs(B)do
local b=aO[k.stream]
local G,dU=b.fired,b.booked
local aC,al=ag(G,i-k.window),ag(G,i)
cy[b]=cy[b]or dz(b)
j[c]=E('>I4I4I4I4I7I7I1',aP[c],math.max(0,k.written-al+aC),
eS(cy[b],k),
dU.n-ag(dU,i-k.window)+G.n-al,dP(cy[b],k,1,i),
aC<al and W(G,aC+1)+k.window or i,bv[c]and 1 or 0)
end
if d and not V then by(d)end
for c=1,#cx do j[#j+1]='\\255'..cx[c]..'\\254'end
if l then bA(l,d)end
local ad=(aA and 1 or 0)+(aA and F.fired and 2 or 0)+(C and 4 or 0)
+(bI and F and F.fired and 8 or 0)
if dS then ca()end
return'r'..aM..E('>I7',e)..dT..E('>I1I2I7',ad,bi,cd)..table.concat(j)
end)()`
