/** Made of redis-quick.lua, redis-long.lua, redis-book.lua, redis-log.lua, redis-state.lua, redis-write.lua, redis-decide.lua, redis-rows.lua by scripts/build/lua.ts; change those, not this. */
export const scriptParts = [
  'redis-quick.lua',
  'redis-long.lua',
  'redis-book.lua',
  'redis-log.lua',
  'redis-state.lua',
  'redis-write.lua',
  'redis-decide.lua',
  'redis-rows.lua',
] as const
export const scriptSha = 'b902f00f4c36532187bd06fc2a3285f42012f61a'
export const script = `\
local b,d,r=ARGV[1],ARGV[2],ARGV[3]local E,i,B,J=string.byte,string.sub,struct.pack,struct.unpack
local X,e,c=(ARGV[7]or 8192)+0,nil,nil if r==''or not r then
local o=redis.call('TIME')local n=o[2]+0 r=o[1]*1000+(n-n%1000)/1000 else r=r+0 end
local z=B('>I6',r)local K,Q,P,x,u,m,w,V,R=E(b,1,9)local l if u==126 then l=redis.pcall('STRLEN',KEYS[1])if typ\
e(l)=='table'or l<=X or#d==12 then u=32 end end if u~=126 then e=redis.pcall('GET',KEYS[1])c=type(e)=='table'i\
f c then if not string.find(e.err,'WRONGTYPE',1,true)then return e end elseif(K==116 or K==99)and u==32 and no\
t(e and#e>X)then
local U,n=#d,e if U==12 then n=nil elseif not e then n=d elseif i(e,1,U)~=d then n=nil if E(e)==65 and i(e,10,\
U)==i(d,10)then
local A,Y,a,g,t,W,M,u=E(e,2,9)local Q,P,x,w,V,R,I,l=E(d,2,9)local h=(((g*128+t)*128+W)*128+M)*128+u
local g=(((w*128+V)*128+R)*128+I)*128+l
local s=(Q*128+P)*128+x>(A*128+Y)*128+a n='A'..i(s and d or e,2,4)..i(g>h and d or e,5,9)..i(e,10)end end if n\
 and m~=49 then
local f=(Q*128+P)*128+x
local l=#n
local c,h,t=(l-U)/6,0,r if c>0 then h=J('>I6',n,l-5)end for u=10,5+8*((w*128+V)*128+R),8 do
local m,P,x,A,Y,a,V,R=E(b,u,u+7)local i=(m*128+P)*128+x-f+1 if i>c then break end if i<1 then t=9e15 \
break end
local c=(((A*128+Y)*128+a)*128+V)*128+R
local s=(i==1 and h or(J('>I6',n,l-6*i+1)))+c if s>t then t=s end end if h>r or t>r and K==116 and m~=48 then \
t=nil elseif t>r or K==99 then return'q'..z..B('>I7',t)..'0'..(e or'')end if t then
local d=f==1 and z or string.rep(z,f)local l,s=n..d,n~=e
local m,P,x,A,Y,a,V,R=E(n,2,9)if c+f>256 then
local t=(m*128+P)*128+x if c+f>2*t then l,s=i(n,1,U)..i(l,-6*t),true end end
local o=math.max((ARGV[6]or 0)+0,(((A*128+Y)*128+a)*128+V)*128+R)local n=o/8 if not s and r-r%n==h-h%n then re\
dis.call('APPEND',KEYS[1],d)else redis.call('SET',KEYS[1],l,'PX',math.ceil(o+n))end return l end end end end
local function S(w,V,R,W,M)return(((w*128+V)*128+R)*128+W)*128+M end
local function ee(o,t)return S(0,0,E(o,t,t+2))end
local function A(e)local h,g=S(E(e,5,9)),S(E(d,5,9))local s=ee(d,2)>ee(e,2)return i(s and d or e,2,4)..i(g>h a\
nd d or e,5,9)..i(d,10),h end
local function k(o,t,i,u,l,n)while u<l do
local h=u+l
local s=(h-h%2)/2 if J('>I6',o,t+i*s)<=n then u=s+1 else l=s end end return u end
local W=(ARGV[6]or 0)+0 if R then W=math.max(W,S(E(d,5,9)))end if u==126 then
local s=(function()local j,U=KEYS[1],#d
local e,o,s=redis.call('GETRANGE',j,0,U-1),W,d if e~=d then if E(e)~=65 or i(e,10)~=i(d,10)then return end
local h s,h=A(e)s,o='A'..s,math.max(o,h)end
local g,f=(l-U)/6,S(0,0,Q,P,x)local function A(e)local f=U+6*e-6 return(J('>I6',redis.call('GETRANGE',j,f,\
f+5)))end
local h=A(g)if h>r or m==49 then return end
local a,p,t=10+8*S(0,0,w,V,R),{},r
local M=ee(b,a)for x=1,M do
local u=a+6+12*(x-1)local e,M=ee(b,u),S(E(b,u+3,u+7))local n=E(b,u+8)>=2 and 9e15 or e
local i,s=n-f+1,r if i<1 then s=9e15 elseif i<=g then s=A(g-i+1)+M end if s>t then t=s end p[x]={x=n,G=e,U=\
M,b=s}end
local c=t<=r
local i=c and K==116 if not c and K==116 and m~=48 then return end
local d,R={},i and f or 0
local m,a=0,{}for x=1,M do
local o=p[x]local M,n=o.U,o.x
local e=d[M]if not e then
local u,l,n=0,g,r-M if h<=n then u=g end while u<l and l-u>48 do
local h=u+l
local s=(h-h%2)/2 if A(s+1)<=n then u=s+1 else l=s end end if u<l then u=k(redis.call('GETRANGE',j,U+6*u,U+6*l\
-1),1-6*u,6,u,l,n)end e,d[M]=u,u end if o.b>r and o.b==t and m==0 then m=x end
local c,s,m,k=g-e,g+R-n,r,r if n-c-R<=0 then m=n==0 and 9e15 or(s<g and A(s+1)or r)+M end if c>0 then k=A(e+1)\
+M elseif i then k=r+M end
local u=math.max(0,o.G-c-R)a[x]=string.format(',%d,%d,%d,%d,%d,%d,%d',c,u,u,0,m,k,c+f<=n and 1 or 0)end \
if i then
local n,t=o/8,ee(s,2)if s~=e then redis.call('SETRANGE',j,0,s)end redis.call('APPEND',j,f==1 and z or string.r\
ep(z,f))if g+f>2*t then redis.call('SET',j,s..redis.call('GETRANGE',j,-6*t,-1),'PX',math.ceil(o+n))elseif r-r%\
n~=h-h%n then redis.call('PEXPIRE',j,math.ceil(o+n))end end return string.format('r%d,%d,%d,%d,%d,%d',r,t,i an\
d 1 or 0,0,m,0)..table.concat(a)end)()if s then return s end e,u=redis.call('GET',KEYS[1]),32 end
local function en(e,x)local o=''for O=1,x do o=string.char(e%128)..o e=math.floor(e/128)end return o end
local function D(o,t)return S(E(o,t,t+4))*16384+S(0,0,0,E(o,t+5,t+6))end
local function C()if(ARGV[5]or'')==''then return{0,9e15,0}end return cjson.decode(ARGV[5])end
local g,q=K==116,K==102
local s=not c and(function()local U,l=#d,ARGV[4]if l==''then l=nil end
local F=K==114 if not(g or F or q or K==99)or U==12 or m~=48 then return end
local M,T,c,m='\\0\\0','\\0\\1',0,0
local p,I,n,h,g='','','',e or'',nil if e then
local l,a=E(e),nil if l==65 and i(e,10,U)==i(d,10)then g,p=i(e,1,9),i(e,U+1)c=#p/6 elseif i(e,1,4)=='B\\0\\0\
\\1'and i(e,16,U+6)==i(d,10)then g,T,M=i(e,7,15),i(e,5,6),i(e,U+7,U+8)c,m=J('>I4I4',e,U+9)a=U+16+6*c p,I=i(e,U\
+17,a),i(e,a+1,a+6*m)a=a+6*m n,h=i(e,a+1),i(e,1,a)else return end end
local O,a=string.find(n,'\\255\\254',1,true)if a then if D(n,a+1)>r then return end end if c>0 and J('>I6',p,6\
*c-5)>r then return end
local o=C()if o[1]>r then return end for x=4,#o,3 do if o[x]<=r and r<o[x+1]then return end end
local a,j=o[3]%2==1,o[3]%4>=2
local f,k,e,U=S(0,0,Q,P,x),'',nil,nil if l then k='\\255'..l..'\\254'e,U=string.find(n,k,1,true)end if f>4 and\
 K~=99 then return end if q then if not e then return end
local M,t,u=E(n,U+11,U+13)if M%2==1 or t~=0 or u~=1 then return end f=ee(n,U+8)local l,t=B('>I6',D(n,U+1)),0 r\
epeat t=string.find(I,l,t+1,true)until not t or t%6==1 if not t then return end I,m=i(I,1,t-1)..i(I,t+6*f),m-f\
 h,j=h..i(n,e,U+15),M>=2 n=i(n,1,e-1)..i(n,U+16)elseif e or m>0 then return end
local t=r for u=10,5+8*S(0,0,w,V,R),8 do
local i=ee(b,u)-f+1 if i<1 then return end if i>c then break end
local s=J('>I6',p,6*(c-i)+1)+S(E(b,u+3,u+7))if s>t then t=s end end
local s=(t>r or K==99)and'0'or'1'if F or q and t>r then if t>r and(#o>3 or m>0 or u==42)then return end s=F an\
d t-r>o[2]and'0'or'2'end
local u='g'..z..B('>I7',t)..s..h if s=='0'then return u end
local o,z=W,B('>I6',t)local h=f==1 and z or string.rep(z,f)local e=a or not F and s=='1'if e then p,c=p..h,c+f\
 else I,m=h,f end if m>0 and o<26784e5 then o=26784e5 end
local s=i(d,2)if g and i(g,2)~=i(d,2,9)then
local h s,h=A(g)if h>o then o=h end end if c>2*ee(s,1)then return end
local w=''if l then w=k..en(t,7)..en(f,3)..string.char((e and 1 or 0)+(j and 2 or 0))..'\\0\\1'..en(J('>I2'\
,M),2)end
local l='B\\0\\0\\1'..T..'L'..s..M..B('>I4I4',c,m)..p..I..n..w if#l>X then return end
local e=t if m>0 then
local n=J('>I6',I,#I-5)if n>e then e=n end end redis.call('SET',KEYS[1],l,'PX',math.ceil(e-r+o+o/32))return u \
end)()if s then return s end return(function()local h,O=9e15,281474976710655
local M,t,j,U=864e5,31*864e5,math.ceil(X/64),4
local a,N,L,p,n,l={},{},{},{},'',1
local s,m=false,false
local function f(o,u,l)local e=0 for t=u,u+l-1 do e=e*128+E(o,t)end return e end
local function el(I,l)local e={o=I,d=#I/6,t=0,a=0,W={},r=l}if l then e.d=J('>I6',I,#I-5)-J('>I6',I)end ret\
urn e end
local function Y(e,x)local a=J('>I6',e.o)local o,u=J('>I6I6',e.o,12*k(e.o,13,12,0,(#e.o-6)/12-1,a+x-1)+7)retur\
n o,u-a end
local function D(e,n)return k(e.o,7,12,0,(#e.o-6)/12,n)end
local function y(e,x)local o=e.N[x]if not o then o=redis.call('HGET',KEYS[1],e.i..e.a+x)e.N[x]=o end ret\
urn o end
local function H(e,x)if e.r then return(Y(e,x))end
local l=x-e.t if l>0 then return(J('>I6',e.o,6*l-5))end
local i=(x-1)%j return(J('>I6',y(e,(x-1-i)/j),6*i+1))end
local function A(e)if not e.R then e.R=redis.call('HGET',KEYS[1],e.i)end return e.R end
local function G(e)if e.t>0 then return(J('>I6',A(e)))end if e.r and e.d>0 then return(J('>I6',e.o,7))end retu\
rn e.d>0 and(J('>I6',e.o))or nil end
local function I(e,n)local r,u,l=e.o,e.t,e.d if l==0 or H(e,l)<=n then return l end
local o=e.W[n]if o then return o end if e.r then
local s=D(e,n)return s==0 and 0 or J('>I6',r,12*s+1)-J('>I6',r)end if u>0 and(r==''or J('>I6',r)>n)then l=k(A(\
e),1,6,0,u/j,n)if l>0 then r,u,l=y(e,l-1),j*(l-1),j*l end end o=k(r,1-6*u,6,math.min(u,l),l,n)e.W[n]=o ret\
urn o end
local function v(e)local a={}for x=0,e.t/j-1 do a[#a+1]=y(e,x)e.m[#e.m+1]=e.i..e.a+x end a[#a+1]=e.o e.a,e.t,e\
.R,e.N=e.a+e.t/j,0,'',{}e.o=table.concat(a)end
local function o(e)if e.r then return end if e.t>0 then v(e)end
local a,o={B('>I6',0)},nil for x=1,e.d do
local n=i(e.o,6*x-5,6*x)if n~=o then a[#a+1]=n..B('>I6',x)else a[#a]=n..B('>I6',x)end o=n end e.o,e.r,e.W=tabl\
e.concat(a),true,{}end
local function u(o,t)local a={}for x=1,#o,12 do
local n,f=J('>I6I6',o,x)a[#a+1]=B('>I6I6',n,f+t)end return table.concat(a)end
local function T(e,n,t)local s=D(e,n)local d=12*s+7
local f=J('>I6',e.o,d-6)local h=i(e.o,1,d-1)if s>0 and J('>I6',e.o,d-12)==n then h=i(e.o,1,d-13)local o=f-J('>\
I6',e.o,d-18)if t<-o then t=-o end if t>-o then h=h..B('>I6I6',n,f+t)end elseif t>0 then h=h..B('>I6I6',n,f+t)\
else return end e.o,e.d,e.W=h..u(i(e.o,d),t),e.d+t,{}end
local function F(e,t,f)if f>U then o(e)end if e.r then return T(e,t,f)end
local c,z=I(e,t),B('>I6',t)if f>1 then z=string.rep(z,f)end if c==e.d then e.o=e.o..z else if c<e.t the\
n v(e)end
local d=6*(c-e.t)e.o,e.W=i(e.o,1,d)..z..i(e.o,d+1),{}end e.d=e.d+f end
local function D(e,o,h)if e.r then return T(e,o,-h)end
local n=I(e,o)local c=n while c>0 and n-c<h and H(e,c)==o do c=c-1 end if c==n then return end if c<e.t then v\
(e)end e.o=i(e.o,1,6*(c-e.t))..i(e.o,6*(n-e.t)+1)e.d,e.W=e.d-(n-c),{}end
local function y(e,t)if t<=0 then return end m,e.W=true,{}if e.r then
local n,o,d=math.min(t,e.d),J('>I6',e.o),7 while d<=#e.o and J('>I6',e.o,d+6)-o<=n do d=d+12 end e.o,e.d=B('>I\
6',o+n)..i(e.o,d),e.d-n return end
local s=math.floor(math.min(t,e.t)/j)if s>0 then e.R=i(A(e),6*s+1)for x=0,s-1 do e.m[#e.m+1]=e.i..e.a+x end e.\
a,e.t,e.d,e.N=e.a+s,e.t-s*j,e.d-s*j,{}t=t-s*j end if e.t==0 then e.o,e.d=i(e.o,6*t+1),e.d-t end end
local function er(e)if e.t>0 then v(e)end return el(e.o,e.r)end
local function Z(n)local l,t=n.e,n.h if t.d==0 then return l end if l.r or t.r then
local e,g=er(l),er(t)o(e)o(g)local n=J('>I6',g.o)for x=7,#g.o,12 do
local t,f=J('>I6I6',g.o,x)T(e,t,f-n)n=f end return e end
local e={o=l.o,d=l.d,t=l.t,a=l.a,i=l.i,N=l.N}e.R,e.m,e.W=l.R,{},{}local c=I(l,(J('>I6',t.o)))if c<e.t the\
n v(e)end
local o,a=6*(c-e.t)+1,{i(e.o,1,6*(c-e.t))}if o<=#e.o then for x=1,t.d do
local n,d=H(t,x),o while d<=#e.o and J('>I6',e.o,d)<=n do d=d+6 end a[#a+1]=i(e.o,o,d-1)a[#a+1]=i(t.o,6*x-5,6*\
x)o=d end a[#a+1]=i(e.o,o)else a[2]=t.o end e.o,e.d=table.concat(a),l.d+t.d return e end
local function v(w)for O,n in ipairs(w.f)do D(w.e and n.e or n.h,w.s,w.u)end end
local function k(w)for O,n in ipairs(w.f)do F(w.e and n.e or n.h,w.s,w.u)end end
local function ei(p,n)for x=1,#p do if p[x]==n then return true end end return false end
local function ea(e)local o,d={},1 while d<#e do
local t=f(e,d,2)o[#o+1]=i(e,d+2,d+1+t)d=d+2+t end return o end
local function u(n)if not n.l then n.l=ea(n.c)end return n.l end
local function T(n,o,t,e,m,j)local d=t+(j and 6+12*e or 6*e)local M=d+(j and 6+12*m or 6*m)if M>#o+1 then erro\
r('length')end n.e,n.h=el(i(o,t,d-1),j),el(i(o,d,M-1),j)return M end
local function D(o,u)local M=u+12+f(o,u+9,3)local n={p=f(o,u+1,3),n=f(o,u+4,5)}n.c=i(o,u+12,M-1)retur\
n n,M end
local function U()local o,u=e,7 if c then o=redis.call('HGET',KEYS[1],'m')elseif E(e)==65 then
local n,t=D(e,1)if(#e-t+1)%6~=0 then error('length')end n.e,n.h,n.T=el(i(e,t)),el(''),0 a[1]=n return elseif E\
(e)~=66 and E(e)~=67 then error('form')end l=J('>I2',o,5)for x=1,J('>I3',o,2)do
local n,t=D(o,u)local R,s,e,m=0,0,nil,nil n.T,t=J('>I2',o,t)if c then R,s,t=J('>I4I4',o,t)end e,m,t=J('>I4I4',\
o,t)u=T(n,o,t,e,m,E(o,u)==82)if c then
local e,t=n.e,s*j e.d,e.t,e.a,e.N,e.m=e.d+t,t,R,{},{}e.i,e.R='f'..n.T..':',s==0 and''or nil end a[x]=n end if \
not c then n=i(e,u)end end
local function T(w)if(w.E or#w.f)==0 then return w.s<=r-M end if not w.e then return w.s<=r-t end for O,n in i\
pairs(w.f)do
local a=G(n.e)if a and a<=w.s then return false end end return true end
local function ed(o)local M=E(o,11)local w={s=f(o,1,7),u=f(o,8,3),e=M%2==1,j=M>=2}w.f,w.E={},f(o,12,2)for x\
=1,w.E do
local i=f(o,12+2*x,2)for O,n in ipairs(a)do if n.T==i then w.f[#w.f+1]=n end end end return w end
local function J(l)if N[l]~=nil then return N[l]end
local o if c then o=redis.call('HGET',KEYS[1],'i'..l)else
local O,U=string.find(n,'\\255'..l..'\\254',1,true)local M=U and string.find(n,'\\255',U,true)or 0 o=U and i(n\
,U+1,M-1)end
local w=o and ed(o)L[l]=w~=nil N[l]=w and not T(w)and w or false return N[l]end
local function et(l,w)N[l],p[l]=w or false,true end
local function eo()if s then return end s=true
local function v(l,o)if N[l]==nil then
local w=ed(o)L[l]=true N[l]=not T(w)and w or false if not N[l]then p[l]=true end end end if c then
local o=redis.call('HGETALL',KEYS[1])for x=1,#o,2 do if E(o[x])==105 then v(i(o[x],2),o[x+1])end end else for \
l,e in string.gmatch(n,'\\255([^\\254]*)\\254([^\\255]*)')do v(l,e)end end end
local function D(e)local o,d,W={},{},{}for O,l in ipairs(e)do
local e for O,n in ipairs(a)do if ei(u(n),l)then e=n end end if not e then d[#d+1]=l elseif W[e]then table.ins\
ert(W[e],l)else W[e]={l}o[#o+1]=e end end
local function e(n)n.T,l=l,(l+1)%16384 a[#a+1]=n end for x,n in ipairs(o)do if#W[n]<#n.l then eo()local s={l=W\
[n],p=n.p,n=n.n}s.e,s.h=er(n.e),er(n.h)local a={}for O,l in ipairs(n.l)do if not ei(s.l,l)then a[#a+1]=l end e\
nd n.l,n.c=a,nil for l,w in pairs(N)do if w and ei(w.f,n)then table.insert(w.f,s)w.E,p[l]=#w.f,true end end e(\
s)o[x]=s end end if#d>0 then e({l=d,p=128,n=0,e=el(''),h=el('')})o[#o+1]=a[#a]end return o end
local function f(n,o)if n.n==0 then return math.max(o,t)end return math.max(o,n.n)end
local function s(o)for O,n in ipairs(a)do
local X,a=r-f(n,o),G(n.e)if a and a<=X then y(n.e,I(n.e,X))end if n.h.d>0 then y(n.h,I(n.h,r-t))end if n.n>0 a\
nd n.e.d>2*n.p then y(n.e,I(n.e,r)-n.p)end end end
local function el(n)local e,g=n.e,n.h if not e.r and not g.r then return'L'end o(e)o(g)return'R'end
local function o(e)return e.r and(#e.o-6)/12 or e.d-e.t end
local function er(l,n)local e=n.c if not e then
local u={}for x,l in ipairs(n.l)do u[x]=en(#l,2)..l end e=table.concat(u)end return l..en(n.p,3)..en(n.n,5)..e\
n(#e,3)..e end
local function G(w)local a,o={},0 for O,n in ipairs(w.f)do if not n.m then o=o+1 a[o]=en(n.T,2)end end
local l=string.char((w.e and 1 or 0)+(w.j and 2 or 0))return en(w.s,7)..en(w.u,3)..l..en(o,2)..table.con\
cat(a)end
local function y(c)local a,o=#n,{}for l in pairs(p)do
local k='\\255'..l..'\\254'if L[l]and not c then
local e,U=string.find(n,k,1,true)U=string.find(n,'\\255',U,true)or#n+1 n=i(n,1,e-1)..i(n,U)end if N[l]then o[#\
o+1]=k..G(N[l])end end n=n..table.concat(o)if n~=''and(m or math.floor(#n/2048)>math.floor(a/2048))then n=stri\
ng.gsub(n,'(\\255[^\\254]*\\254)([^\\255]*)',function(O,o)if T(ed(o))then return''end end)end end
local function L()local o=redis.call('HRANDFIELD',KEYS[1],3,'WITHVALUES')for x=1,#o,2 do if E(o[x])==105 and N\
[i(o[x],2)]==nil and T(ed(o[x+1]))then redis.call('HDEL',KEYS[1],o[x])end end end
local function m(n)local e=n.e if not e.i then e.i,e.N,e.m,e.R='f'..n.T..':',{},{},''end
local t,o=1,{}while not e.r and#e.o-t+1>9*j do
local n=i(e.o,t,t+6*j-1)redis.call('HSET',KEYS[1],e.i..e.a+e.t/j,n)o[#o+1]=i(n,1,6)e.t,t=e.t+j,t+6*j end if t>\
1 then e.R=A(e)..table.concat(o)e.o=i(e.o,t)end if#e.m>0 then for x=1,#e.m do redis.call('HDEL',KEYS[1],e.m[x]\
)end end if e.t==0 then redis.call('HDEL',KEYS[1],e.i)elseif t>1 or#e.m>0 then redis.call('HSET',KEYS[1],e.i,e\
.R)end end
local function A(L,t)local a={''}for O,n in ipairs(t)do
local l,e,g=el(n),n.e,n.h if l=='R'and not c then L='C'end a[#a+1]=er(l,n)..B('>I2',n.T)..(c and B('>I4I4',e.a\
,e.t/j)or'')..B('>I4I4',o(e),o(g))a[#a+1]=e.o a[#a+1]=g.o end a[1]=B('>cI3I2',L,#t,l)return table.con\
cat(a)end
local function T(t)local e=false for O,n in ipairs(t)do el(n)end for O,n in ipairs(a)do if n.m or n.e.d>0 then\
 m(n)end end redis.call('HSET',KEYS[1],'m',A('H',t))for l in pairs(p)do if N[l]then redis.call('HSET',KEYS[1],\
'i'..l,G(N[l]))e=true else redis.call('HDEL',KEYS[1],'i'..l)end end if e then L()end end
local function L(l,d)if#l==1 and n==''and not d and el(l[1])=='L'then return er('A',l[1])..l[1].e.o end return\
 A('B',l)..n end
local function A(e)local o=0 for O,n in ipairs(e)do if n.e.t>0 then return false end o=o+#n.e.o+#n.h.o end ret\
urn o<X/2 and redis.call('HLEN',KEYS[1])<=24 end
local function m(n)eo()for l,w in pairs(N)do p[l]=w and true or nil end redis.call('DEL',KEYS[1])c=n end
local function en()local o=W s(o)local l,d,W={},false,r for O,n in ipairs(a)do
local e,t=n.e,n.h if e.d+t.d>0 then l[#l+1]=n d=d or t.d>0 o=f(n,o)W=math.max(W,e.d>0 and H(e,e.d)or 0,t.d>0 a\
nd H(t,t.d)or 0)else n.m=true end end
local a=J('')if a then W=math.max(W,a.s)end
local e=#l==0 or a for l in pairs(p)do if N[l]then W=math.max(W,N[l].s)e=e or#N[l].f==0 end end
local f=c if d then o=math.max(o,t)elseif e then o=math.max(o,M)end
local e=math.ceil(W-r+o+o/32)if c and A(l)then m(false)end if not c then y(f)if#l==0 and n==''then redis.call(\
'DEL',KEYS[1])return end
local s=L(l,d)if#s<=X then redis.call('SET',KEYS[1],s,'PX',e)return end m(true)end T(l)redis.call('PEXPIRE',KE\
YS[1],e)end if K==100 then return redis.call('DEL',KEYS[1])==1 and'1'or'0'end if c or e then
local t=pcall(U)if not t then return redis.error_reply('INVALIDSTATE the key holds something else than limits\
')end end
local l=ARGV[4]~=''and ARGV[4]or nil if K==104 then if not e and not c then return'0'end s(W)for O,n in ipairs\
(a)do if n.e.d+n.h.d>0 then return'1'end end eo()for O,w in pairs(N)do if w then return'1'end end return'0'end\
 if K==101 then eo()local p={}for l,w in pairs(N)do if w then
local t={}for O,n in ipairs(w.f)do for O,l in ipairs(u(n))do t[#t+1]=l end end p[#p+1]={l,w.s,w.e,w.u,t}end en\
d return cjson.encode(p)end if K==120 then
local w=J(l)if not w then return'0'end v(w)et(l,nil)en()return'1'end if K==115 then for O,n in ipairs(cjson.de\
code(ARGV[5]))do if not J(n[1])then
local w={s=n[2],e=n[3],u=n[4],j=false,f=D(n[5])}k(w)et(n[1],w)end end en()return'1'end if K==98 then
local a,s=J(''),ARGV[5]+0 et('',s>0 and{s=r+s,u=1,e=true,j=false,f={}}or nil)en()return(a and a.s>r and'1'or'0\
')..B('>I7',r+s)end
local y,W={},{}local o=10+8*S(0,0,w,V,R)for x=1,ee(b,o)do
local t=o+3+12*(x-1)local e,M=ee(b,t+3),E(b,t+11)y[x]={L=ee(b,t)+1,G=e,x=M>=2 and h or e,U=S(E(b,t+6,t+10)),A=\
M%2==1,}end o=o+3+12*#y for x=1,ee(b,o)do W[x]=ee(b,o+3*x)+1 end
local T,p=a,{}local s=i(d,13)if#a==1 and a[1].c==s and#W==0 then for O,o in ipairs(y)do p[o.L]=a[1]end else
local t=ea(s)if#W>0 and#W<#t then
local e={}for x,l in ipairs(W)do e[x]=t[l]end D(e)end T=D(t)for x,l in ipairs(t)do for O,n in ipairs(T)do if e\
i(u(n),l)then p[x]=n end end end end for O,o in ipairs(y)do
local n=p[o.L]if o.U>n.n then n.n=o.U end if 2*o.G>n.p then n.p=2*o.G end end
local o=C()local U,X,A=o[2],o[3]%2==1,math.floor(o[3]/2)local a=J('')local u=a and a.s>r and a.s or 0 if u>0 t\
hen for O,e in ipairs({0,u,u})do o[#o+1]=e end end
local function t(n)while true do
local e=n for x=4,#o,3 do if o[x]<=n and n<o[x+1]and o[x+2]>e then e=o[x+2]end end if e==n then return n end n\
=e end end
local M=l and J(l)or nil if M then v(M)end
local w=K==70
local m=K==114 or K==112
local d=M and(m or(g and M.e))local f=M and M.u or S(0,0,Q,P,x)local R=math.max(r,o[1])local s=t(R)local j,S,x\
='',{},c if c then for x,o in ipairs(y)do
local e=p[o.L].e S[x]=I(e,r)-I(e,r-o.U)end else if M then j='\\255'..l..'\\254'..G(M)end if u>0 then j=j..'\\2\
55\\254'..G(a)end if m and A==2 then eo()for l,w in pairs(N)do if w and w~=M and w.j and not w.e then j=j..'\
\\255'..l..'\\254'..G(w)end end end j=(e and i(e,1,#e-#n)or'')..j end
local a
local function L()local e={}a={}for O,o in ipairs(y)do
local n=p[o.L]e[n]=e[n]or(q and n.e or Z(n))a[o.L]=e[n]end end
local function D(e,o,f,n)local i,g=o.x-f+1,o.U if i<1 then return h end if e.d<i then return n end
local a=I(e,n-g)while e.r and a+i<=e.d do
local s,t=Y(e,a+1)local l,d=Y(e,a+i)if l-g>=n then return n end if l-s<g then n=s+g end a=math.min(t,d-i+1)end\
 while a+i<=e.d do
local l=H(e,a+i)if l-g>=n then break end
local s=H(e,a+1)if l-s<g then n=s+g end a=a+1 end return n end
local function C(o,n)return D(a[o.L],o,f,n)end
local function b(o)local e,t=true,false for O,n in ipairs(y)do if C(n,o)>o then e=false t=t or n.A end end ret\
urn e,t end
local function J()local n=s while true do
local e=n for O,o in ipairs(y)do n=C(o,n)end if n==e then n=t(n)if n==e then return n end end end end
local Y={}local function i(w)local o={}eo()for l,w in pairs(N)do if w and w.j and not w.e and w~=M then
local t=false for O,n in ipairs(w.f)do t=t or ei(T,n)end
local n=string.gsub(l,'.',function(b)return string.format('%02x',E(b))end)if t then o[#o+1]={y=l,g=string.form\
at('%016d',w.s)..n,M=w}end end end if#o==0 then return end table.sort(o,function(e,t)return e.g<t.g end)for O,\
n in ipairs(o)do v(n.M)end L()local O,t=b(s)local e=J()if t or e>=w or e-R>U then for O,n in ipairs(o)do k(n.M\
)end return end for O,n in ipairs(o)do k(n.M)L()local O,t=b(s)if t or not b(e)then v(n.M)et(n.y,nil)Y[#Y+1]=n.\
y end end return e end L()local e,t=b(s)t=t and m and not d
local n=s if d then n=M.s elseif w then n=r elseif not e then n=J()if m and A==2 then
local s=i(t and h or n)if s then n,t=s,false end end end
local E={}if c then L()for x,o in ipairs(y)do E[x]=C(o,s)<=s end end
local b=w or((g or q)and not d and n==r)local o=n<=O if q then o=o and not b else o=o and m and n-R<=U and not\
 t end if g and not b and not d then
local e={}for O,l in ipairs(W)do if not e[p[l]]then F(p[l].e,r,f)end e[p[l]]=true end if c and#W>0 then L()n=J\
()end end
local w,i=M,b and'1'or(o and not d)and'2'or'0'if i~='0'and K~=112 then
local s=A==1 if M then s=M.j end w={s=n,u=f,e=b or m and X,j=s,f=T}elseif q then w=nil end
local F=w~=M or q or g and not d and#W>0 if not x then if F then if w then k(w)end if l then et(l,w)end en()en\
d return'g'..z..B('>I7',n)..i..j end
local function L()for x,o in ipairs(y)do
local e,i,g=a[o.L],o.x-f+1,o.U if i<1 then if n>=h then return x end elseif n<h and C(o,n)==n then
local a=I(e,n-g-1)if a+i<=e.d then
local s=H(e,a+1)if s+g==n and H(e,a+i)-s<g then return x end end end end return 0 end
local z=0 if t then for x=#y,1,-1 do if y[x].A and not E[x]then z=x end end elseif n>(d and r or s)then\
 z=L()end
local t=w and w.e and w.s<=r if t then k(w)end
local a,c={},{}local function J(e,o)local d=I(e,r)local s,t=d-I(e,r-o.U),d+1 while t<=e.d do
local l=H(e,t)if l>=r+o.U then break end
local i=I(e,l)s=math.max(s,i-I(e,l-o.U))t=i+1 end return math.max(0,o.G-s)end for x,o in ipairs(y)do
local n=p[o.L]local e,t=n.e,n.h
local i,g=I(e,r-o.U),I(e,r)c[n]=c[n]or Z(n)a[x]=string.format(',%d,%d,%d,%d,%d,%d,%d',S[x],math.max(0,o.G-g+i)\
,J(c[n],o),t.d-I(t,r-o.U)+e.d-g,D(c[n],o,1,r),i<g and H(e,i+1)+o.U or r,E[x]and 1 or 0)end if w and not t then\
 k(w)end for O,l in ipairs(Y)do a[#a+1]=','..cjson.encode(l)end if l then et(l,w)end
local t=(d and 1 or 0)+(d and M.e and 2 or 0)+(o and 4 or 0)+(b and M and M.e and 8 or 0)if F then en()end ret\
urn string.format('r%d,%d,%d,%d,%d,%d',r,n,i,t,z,u)..table.concat(a)end)()`
