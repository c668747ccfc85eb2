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
export const scriptSha = '0a5624f6d746149c32c20effaffe9b780efa0eac'
export const script = `\
local z,g,d=ARGV[1],ARGV[2],ARGV[3]local s,r,v,c=string.byte,string.sub,struct.pack,struct.unpack
local I,e,u=(ARGV[7]or 8192)+0,nil,nil if d==''or not d then
local e=redis.call('TIME')local n=e[2]+0 d=e[1]*1000+(n-n%1000)/1000 else d=d+0 end
local F=v('>I6',d)local b,P,Q,R,G,h,S,T,M=s(z,1,9)local n if G==126 then n=redis.pcall('STRLEN',KEYS[1])if typ\
e(n)=='table'or n<=I or#g==12 then G=32 end end if G~=126 then e=redis.pcall('GET',KEYS[1])u=type(e)=='table'i\
f u then if not string.find(e.err,'WRONGTYPE',1,true)then return e end elseif(b==116 or b==99)and G==32 and no\
t(e and#e>I)then
local u,k=#g,e if u==12 then k=nil elseif not e then k=g elseif r(e,1,u)~=g then k=nil if s(e)==65 and r(e,10,\
u)==r(g,10)then
local i,d,a,c,f,u,h,p=s(e,2,9)local o,m,v,l,t,b,w,x=s(g,2,9)local n=(((c*128+f)*128+u)*128+h)*128+p
local h=(((l*128+t)*128+b)*128+w)*128+x
local l=(o*128+m)*128+v>(i*128+d)*128+a k='A'..r(l and g or e,2,4)..r(h>n and g or e,5,9)..r(e,10)end end if k\
 and h~=49 then
local i=(P*128+Q)*128+R
local n=#k
local f,p,t=(n-u)/6,0,d if f>0 then p=c('>I6',k,n-5)end for a=10,5+8*((S*128+T)*128+M),8 do
local o,m,v,e,g,w,x,y=s(z,a,a+7)local r=(o*128+m)*128+v-i+1 if r>f then break end if r<1 then t=9e15 \
break end
local h=(((e*128+g)*128+w)*128+x)*128+y
local e=(r==1 and p or(c('>I6',k,n-6*r+1)))+h if e>t then t=e end end if p>d or t>d and b==116 and h~=48 then \
t=nil elseif t>d or b==99 then return'q'..F..v('>I7',t)..'0'..(e or'')end if t then
local b=i==1 and F or string.rep(F,i)local l,a=k..b,k~=e
local o,m,v,e,g,w,x,y=s(k,2,9)if f+i>256 then
local n=(o*128+m)*128+v if f+i>2*n then l,a=r(k,1,u)..r(l,-6*n),true end end
local o=math.max((ARGV[6]or 0)+0,(((e*128+g)*128+w)*128+x)*128+y)local e=o/8 if not a and d-d%e==p-p%e then re\
dis.call('APPEND',KEYS[1],b)else redis.call('SET',KEYS[1],l,'PX',math.ceil(o+e))end return l end end end end
local function j(t,i,e,n,l)return(((t*128+i)*128+e)*128+n)*128+l end
local function q(i,t)return j(0,0,s(i,t,t+2))end
local J=(ARGV[6]or 0)+0 if M then J=math.max(J,j(s(g,5,9)))end if G==126 then
local l=(function()local v,u=KEYS[1],#g
local m,o,x=redis.call('GETRANGE',v,0,u-1),J,g if m~=g then if s(m)~=65 or r(m,10)~=r(g,10)then return end
local n,h=j(s(m,5,9)),j(s(g,5,9))local l=q(g,2)>q(m,2)x='A'..r(l and g or m,2,4)..r(h>n and g or m,5)if n>o th\
en o=n end end
local f,i=(n-u)/6,j(0,0,P,Q,R)local function w(l)local o=u+6*l-6 return(c('>I6',redis.call('GETRANGE',v,o,\
o+5)))end
local p=w(f)if p>d or h==49 then return end
local a,B,t=10+8*j(0,0,S,T,M),{},d
local k=q(z,a)for l=1,k do
local o=a+6+12*(l-1)local a,h=q(z,o),j(s(z,o+3,o+7))local n=s(z,o+8)>=2 and 9e15 or a
local r,e=n-i+1,d if r<1 then e=9e15 elseif r<=f then e=w(f-r+1)+h end if e>t then t=e end B[l]={y=n,x=a,s=\
h,A=e}end
local A=t<=d
local y=A and b==116 if not A and b==116 and h~=48 then return end
local g,b={},y and i or 0
local r,a=0,{}for l=1,k do
local o=B[l]local h,n=o.s,o.y
local s=g[h]if not s then
local a,t,n=0,f,d-h if p<=n then a=f end while a<t and t-a>48 do
local d=a+t
local r=(d-d%2)/2 if w(r+1)<=n then a=r+1 else t=r end end if a<t then
local i,k=redis.call('GETRANGE',v,u+6*a,u+6*t-1),a while a<t do
local d=a+t
local r=(d-d%2)/2 if c('>I6',i,6*(r-k)+1)<=n then a=r+1 else t=r end end end s,g[h]=a,a end if o.A>d and o.A==\
t and r==0 then r=l end
local j,t,r,e=f-s,f+b-n,d,d if n-j-b<=0 then r=n==0 and 9e15 or(t<f and w(t+1)or d)+h end if j>0 then e=w(s+1)\
+h elseif y then e=d+h end
local t=math.max(0,o.x-j-b)a[l]=string.format(',%d,%d,%d,%d,%d,%d,%d',j,t,t,0,r,e,j+i<=n and 1 or 0)end \
if y then
local e,n=o/8,q(x,2)if x~=m then redis.call('SETRANGE',v,0,x)end redis.call('APPEND',v,i==1 and F or string.re\
p(F,i))if f+i>2*n then redis.call('SET',v,x..redis.call('GETRANGE',v,-6*n,-1),'PX',math.ceil(o+e))elseif d-d%e\
~=p-p%e then redis.call('PEXPIRE',v,math.ceil(o+e))end end return string.format('r%d,%d,%d,%d,%d,%d',d,t,y and\
 1 or 0,0,r,0)..table.concat(a)end)()if l then return l end e,G=redis.call('GET',KEYS[1]),32 end
local function B(e,f)local i=''for t=1,f do i=string.char(e%128)..i e=math.floor(e/128)end return i end
local function L(i,t)return j(s(i,t,t+4))*16384+j(0,0,0,s(i,t+5,t+6))end
local function Z()if(ARGV[5]or'')==''then return{0,9e15,0}end return cjson.decode(ARGV[5])end
local l=not u and(function()local u,l=#g,ARGV[4]if l==''then l=nil end
local H,K,C=b==116,b==114,b==102 if not(H or K or C or b==99)or u==12 or h~=48 then return end
local x,D,E,f,w=g,'\\0\\0','\\0\\1',0,0
local y,h,n,A,m='','','',e or'',nil if e then
local t,l=s(e),nil if t==65 and r(e,10,u)==r(g,10)then m,y=r(e,1,9),r(e,u+1)f=#y/6 elseif r(e,1,4)=='B\\0\\0\
\\1'and r(e,16,u+6)==r(g,10)then m,E,D=r(e,7,15),r(e,5,6),r(e,u+7,u+8)f,w=c('>I4I4',e,u+9)l=u+16+6*f y,h=r(e,u\
+17,l),r(e,l+1,l+6*w)l=l+6*w n,A=r(e,l+1),r(e,1,l)else return end end
local t,a=string.find(n,'\\255\\254',1,true)if a then if L(n,a+1)>d then return end end if f>0 and c('>I6',y,6\
*f-5)>d then return end
local o=Z()if o[1]>d then return end for l=4,#o,3 do if o[l]<=d and d<o[l+1]then return end end
local V,a=o[3]%2==1,o[3]%4>=2
local i,k,u,p=j(0,0,P,Q,R),'',nil,nil if l then k='\\255'..l..'\\254'u,p=string.find(n,k,1,true)end if i>4 and\
 b~=99 then return end if C then if not u then return end
local f,l,t=s(n,p+11,p+13)if f%2==1 or l~=0 or t~=1 then return end i=q(n,p+8)local z,o=v('>I6',L(n,p+1)),0 re\
peat o=string.find(h,z,o+1,true)until not o or o%6==1 if not o then return end h,w=r(h,1,o-1)..r(h,o+6*i),w-i \
A,a=A..r(n,u,p+15),f>=2 n=r(n,1,u-1)..r(n,p+16)elseif u or w>0 then return end
local t=d for a=10,5+8*j(0,0,S,T,M),8 do
local r=q(z,a)-i+1 if r<1 then return end if r>f then break end
local e=c('>I6',y,6*(f-r)+1)+j(s(z,a+3,a+7))if e>t then t=e end end
local e='1'if t>d and K or C and t>d then if#o>3 or w>0 or G==42 then return end e='2'elseif K then e='2'elsei\
f t>d or not H and not C then e='0'end if K and t-d>o[2]then e='0'end
local u='g'..F..v('>I7',t)..e..A if e=='0'then return u end
local o,z=J,v('>I6',t)local b=i==1 and z or string.rep(z,i)local z=V or not K and e=='1'if z then y,f=y..b,f+i\
 else h,w=b,i if o<26784e5 then o=26784e5 end end if w>0 and z and o<26784e5 then o=26784e5 end x=r(g,2)if m a\
nd r(m,2)~=r(g,2,9)then
local n,h=j(s(m,5,9)),j(s(g,5,9))local l=q(g,2)>q(m,2)x=r(l and g or m,2,4)..r(h>n and g or m,5,9)..r(g,10)if \
n>o then o=n end end if f>2*q('L'..x,2)then return end
local e=''if l then e=k..B(t,7)..B(i,3)..string.char((z and 1 or 0)+(a and 2 or 0))..'\\0\\1'..B(c('>I2'\
,D),2)end
local l='B\\0\\0\\1'..E..'L'..x..D..v('>I4I4',f,w)..y..h..n..e if#l>I then return end
local e=t if w>i or z and w>0 then
local n=c('>I6',h,#h-5)if n>e then e=n end end redis.call('SET',KEYS[1],l,'PX',math.ceil(e-d+o+o/32))return u \
end)()if l then return l end return(function()local y,ea=9e15,281474976710655
local ee,D,p,G=864e5,31*864e5,math.ceil(I/64),4
local h,f,m,t,n,E={},{},{},{},'',1
local i,en=false,false
local function o(i,a,f)local e=0 for l=a,a+f-1 do e=e*128+s(i,l)end return e end
local function a(i,n)local e={r=i,d=#i/6,t=0,u=0,z={},n=n}if n then e.d=c('>I6',i,#i-5)-c('>I6',i)end ret\
urn e end
local function W(e,l)local k=c('>I6',e.r)local a,t=0,(#e.r-6)/12-1 while a<t do
local d=a+t
local r=(d-d%2)/2 if c('>I6',e.r,12*r+13)-k<l then a=r+1 else t=r end end
local t,l=c('>I6I6',e.r,12*a+7)return t,l-k end
local function A(e,n)local a,t=0,(#e.r-6)/12 while a<t do
local d=a+t
local r=(d-d%2)/2 if c('>I6',e.r,12*r+7)<=n then a=r+1 else t=r end end return a end
local function C(e,l)local i=e.w[l]if not i then i=redis.call('HGET',KEYS[1],e.p..e.u+l)e.w[l]=i end ret\
urn i end
local function w(e,l)if e.n then return(W(e,l))end
local n=l-e.t if n>0 then return(c('>I6',e.r,6*n-5))end
local r=(l-1)%p return(c('>I6',C(e,(l-1-r)/p),6*r+1))end
local function H(e)if not e.H then e.H=redis.call('HGET',KEYS[1],e.p)end return e.H end
local function el(e)if e.t>0 then return(c('>I6',H(e)))end if e.n and e.d>0 then return(c('>I6',e.r,7))end ret\
urn e.d>0 and(c('>I6',e.r))or nil end
local function x(e,n)local a,t=0,e.d if t==0 or w(e,t)<=n then return t end
local y=e.z[n]if y then return y end if e.n then
local a=A(e,n)return a==0 and 0 or c('>I6',e.r,12*a+1)-c('>I6',e.r)end if e.t>0 and(e.r==''or c('>I6',e.\
r)>n)then
local i,o,f=H(e),0,e.t/p while o<f do
local d=o+f
local r=(d-d%2)/2 if c('>I6',i,6*r+1)<=n then o=r+1 else f=r end end if o==0 then e.z[n]=0 return 0 end a,t=p*\
(o-1)+1,p*o else a=e.t end while a<t do
local d=a+t
local r=(d-d%2)/2 if w(e,r+1)<=n then a=r+1 else t=r end end e.z[n]=a return a end
local function k(e)local a={}for l=0,e.t/p-1 do a[#a+1]=C(e,l)e.g[#e.g+1]=e.p..e.u+l end a[#a+1]=e.r e.u,e.t,e\
.H,e.w=e.u+e.t/p,0,'',{}e.r=table.concat(a)end
local function l(e)if e.n then return end if e.t>0 then k(e)end
local a,p={v('>I6',0)},nil for l=1,e.d do
local t=r(e.r,6*l-5,6*l)if t~=p then a[#a+1]=t..v('>I6',l)else a[#a]=t..v('>I6',l)end p=t end e.r,e.n,e.z=tabl\
e.concat(a),true,{}end
local function K(i,n)local a={}for o=1,#i,12 do
local t,l=c('>I6I6',i,o)a[#a+1]=v('>I6I6',t,l+n)end return table.concat(a)end
local function C(e,t,n)local a=A(e,t)local o=12*a+7
local l=c('>I6',e.r,o-6)local d=r(e.r,1,o-1)if a>0 and c('>I6',e.r,o-12)==t then d=r(e.r,1,o-13)local i=l-c('>\
I6',e.r,o-18)if n<-i then n=-i end if n>-i then d=d..v('>I6I6',t,l+n)end elseif n>0 then d=d..v('>I6I6',t,l+n)\
else return end e.r,e.d,e.z=d..K(r(e.r,o),n),e.d+n,{}end
local function et(e,t,i)if i>G then l(e)end if e.n then return C(e,t,i)end
local l,b=x(e,t),v('>I6',t)if i>1 then b=string.rep(b,i)end if l==e.d then e.r=e.r..b else if l<e.t the\
n k(e)end
local n=6*(l-e.t)e.r,e.z=r(e.r,1,n)..b..r(e.r,n+1),{}end e.d=e.d+i end
local function G(e,t,i)if e.n then return C(e,t,-i)end
local p=x(e,t)local u=p while u>0 and p-u<i and w(e,u)==t do u=u-1 end if u==p then return end if u<e.t then k\
(e)end e.r=r(e.r,1,6*(u-e.t))..r(e.r,6*(p-e.t)+1)e.d,e.z=e.d-(p-u),{}end
local function V(e,f)if f<=0 then return end en,e.z=true,{}if e.n then
local g,k,o=math.min(f,e.d),c('>I6',e.r),7 while o<=#e.r and c('>I6',e.r,o+6)-k<=g do o=o+12 end e.r,e.d=v('>I\
6',k+g)..r(e.r,o),e.d-g return end
local a=math.floor(math.min(f,e.t)/p)if a>0 then e.H=r(H(e),6*a+1)for l=0,a-1 do e.g[#e.g+1]=e.p..e.u+l end e.\
u,e.t,e.d,e.w=e.u+a,e.t-a*p,e.d-a*p,{}f=f-a*p end if e.t==0 then e.r,e.d=r(e.r,6*f+1),e.d-f end end
local function A(e)if e.t>0 then k(e)end return a(e.r,e.n)end
local function eo(n)local t,i=n.e,n.h if i.d==0 then return t end if t.n or i.n then
local e,n=A(t),A(i)l(e)l(n)local A=c('>I6',n.r)for o=7,#n.r,12 do
local t,l=c('>I6I6',n.r,o)C(e,t,l-A)A=l end return e end
local e={r=t.r,d=t.d,t=t.t,u=t.u,p=t.p,w=t.w}e.H,e.g,e.z=t.H,{},{}local d=x(t,(c('>I6',i.r)))if d<e.t the\
n k(e)end
local o,a=6*(d-e.t)+1,{r(e.r,1,6*(d-e.t))}if o<=#e.r then for l=1,i.d do
local n,f=w(i,l),o while f<=#e.r and c('>I6',e.r,f)<=n do f=f+6 end a[#a+1]=r(e.r,o,f-1)a[#a+1]=r(i.r,6*l-5,6*\
l)o=f end a[#a+1]=r(e.r,o)else a[2]=i.r end e.r,e.d=table.concat(a),t.d+i.d return e end
local function U(e)for t,n in ipairs(e.f)do G(e.e and n.e or n.h,e.c,e.i)end end
local function G(e)for t,n in ipairs(e.f)do et(e.e and n.e or n.h,e.c,e.i)end end
local function N(B,e)for l=1,#B do if B[l]==e then return true end end return false end
local function ei(i)local e,a={},1 while a<#i do
local n=o(i,a,2)e[#e+1]=r(i,a+2,a+1+n)a=a+2+n end return e end
local function er(n)if not n.k then n.k=ei(n.j)end return n.k end
local function ed(n,i,t,z,g,e)local l=t+(e and 6+12*z or 6*z)local s=l+(e and 6+12*g or 6*g)if s>#i+1 then err\
or('length')end n.e,n.h=a(r(i,t,l-1),e),a(r(i,l,s-1),e)return s end
local function X(i,a)local l=a+12+o(i,a+9,3)local n={m=o(i,a+1,3),b=o(i,a+4,5)}n.j=r(i,a+12,l-1)retur\
n n,l end
local function ec()if s(e)==65 then
local n,o=X(e,1)if(#e-o+1)%6~=0 then error('length')end n.e,n.h,n.D=a(r(e,o)),a(''),0 h[1]=n return end if s(e\
)~=66 and s(e)~=67 then error('form')end
local k,a=c('>I3',e,2),7 E=c('>I2',e,5)for l=1,k do
local n,o=X(e,a)local D,z,g,t=c('>I2I4I4',e,o)n.D=D a=ed(n,e,t,z,g,s(e,a)==82)h[l]=n end n=r(e,a)end
local function k(e)if(e.o or#e.f)==0 then return e.c<=d-ee end if not e.e then return e.c<=d-D end for t,n in \
ipairs(e.f)do
local u=el(n.e)if u and u<=e.c then return false end end return true end
local function O(i)local f=s(i,11)local e={c=o(i,1,7),i=o(i,8,3),e=f%2==1,a=f>=2}e.f,e.o={},o(i,12,2)for l\
=1,e.o do
local D=o(i,12+2*l,2)for t,n in ipairs(h)do if n.D==D then e.f[#e.f+1]=n end end end return e end
local function C(l)if f[l]~=nil then return f[l]end
local i if u then i=redis.call('HGET',KEYS[1],'i'..l)else
local t,o=string.find(n,'\\255'..l..'\\254',1,true)local l=o and string.find(n,'\\255',o,true)or 0 i=o and r(n\
,o+1,l-1)end
local e=i and O(i)m[l]=e~=nil f[l]=e and not k(e)and e or false return f[l]end
local function K(l,e)f[l],t[l]=e or false,true end
local function L()if i then return end i=true
local function o(l,i)if f[l]==nil then
local e=O(i)m[l]=true f[l]=not k(e)and e or false if not f[l]then t[l]=true end end end if u then
local e=redis.call('HGETALL',KEYS[1])for l=1,#e,2 do if s(e[l])==105 then o(r(e[l],2),e[l+1])end end else for \
l,i in string.gmatch(n,'\\255([^\\254]*)\\254([^\\255]*)')do o(l,i)end end end
local function Y(e)local i,n,r={},{},{}for t,o in ipairs(e)do
local e for t,n in ipairs(h)do if N(er(n),o)then e=n end end if not e then n[#n+1]=o elseif r[e]then table.ins\
ert(r[e],o)else r[e]={o}i[#i+1]=e end end
local function e(n)n.D,E=E,(E+1)%16384 h[#h+1]=n end for l,n in ipairs(i)do if#r[n]<#n.k then L()local d={k=r[\
n],m=n.m,b=n.b}d.e,d.h=A(n.e),A(n.h)local r={}for t,o in ipairs(n.k)do if not N(d.k,o)then r[#r+1]=o end end n\
.k,n.j=r,nil for l,e in pairs(f)do if e and N(e.f,n)then table.insert(e.f,d)e.o,t[l]=#e.f,true end end e(d)i[l\
]=d end end if#n>0 then e({k=n,m=128,b=0,e=a(''),h=a('')})i[#i+1]=h[#h]end return i end
local function ef()local e=redis.call('HGET',KEYS[1],'m')local k,a=c('>I3',e,2),7 E=c('>I2',e,5)for l=1,k do
local n,o=X(e,a)local D,u,i,z,g,t=c('>I2I4I4I4I4',e,o)a=ed(n,e,t,z,g,s(e,a)==82)local e,t=n.e,i*p e.d,e.t,e.u,\
e.w,e.g=e.d+t,t,u,{},{}e.p,e.H,n.D='f'..D..':',i==0 and''or nil,D h[l]=n end end
local function a(n,o)if n.b==0 then return math.max(o,D)end return math.max(o,n.b)end
local function X(o)for t,n in ipairs(h)do
local i,u=d-a(n,o),el(n.e)if u and u<=i then V(n.e,x(n.e,i))end if n.h.d>0 then V(n.h,x(n.h,d-D))end if n.b>0 \
and n.e.d>2*n.m then V(n.e,x(n.e,d)-n.m)end end end
local function o(n)local e,h=n.e,n.h if not e.n and not h.n then return'L'end l(e)l(h)return'R'end
local function i(e)return e.n and(#e.r-6)/12 or e.d-e.t end
local function c(t,n)local e=n.j if not e then
local i={}for l,o in ipairs(n.k)do i[l]=B(#o,2)..o end e=table.concat(i)end return t..B(n.m,3)..B(n.b,5)..B(#e\
,3)..e end
local function A(e)local o,l={},0 for t,n in ipairs(e.f)do if not n.g then l=l+1 o[l]=B(n.D,2)end end
local f=string.char((e.e and 1 or 0)+(e.a and 2 or 0))return B(e.c,7)..B(e.i,3)..f..B(l,2)..table.con\
cat(o)end
local function B(q)local e,a=#n,{}for l in pairs(t)do
local k='\\255'..l..'\\254'if m[l]and not q then
local o,l=string.find(n,k,1,true)l=string.find(n,'\\255',l,true)or#n+1 n=r(n,1,o-1)..r(n,l)end if f[l]then a[#\
a+1]=k..A(f[l])end end n=n..table.concat(a)if n~=''and(en or math.floor(#n/2048)>math.floor(e/2048))then n=str\
ing.gsub(n,'(\\255[^\\254]*\\254)([^\\255]*)',function(t,i)if k(O(i))then return''end end)end end
local function m()local e=redis.call('HRANDFIELD',KEYS[1],3,'WITHVALUES')for l=1,#e,2 do if s(e[l])==105 and f\
[r(e[l],2)]==nil and k(O(e[l+1]))then redis.call('HDEL',KEYS[1],e[l])end end end
local function k(n)local e=n.e if not e.p then e.p,e.w,e.g,e.H='f'..n.D..':',{},{},''end
local o,b=1,{}while not e.n and#e.r-o+1>9*p do
local i=r(e.r,o,o+6*p-1)redis.call('HSET',KEYS[1],e.p..e.u+e.t/p,i)b[#b+1]=r(i,1,6)e.t,o=e.t+p,o+6*p end if o>\
1 then e.H=H(e)..table.concat(b)e.r=r(e.r,o)end if#e.g>0 then for l=1,#e.g do redis.call('HDEL',KEYS[1],e.g[l]\
)end end if e.t==0 then redis.call('HDEL',KEYS[1],e.p)elseif o>1 or#e.g>0 then redis.call('HSET',KEYS[1],e.p,e\
.H)end end
local function H(l)local a,e={v('>cI3I2','H',#l,E)},false for t,n in ipairs(l)do o(n)end for t,n in ipairs(h)d\
o if n.g or n.e.d>0 then k(n)end end for t,n in ipairs(l)do
local e,h=n.e,n.h a[#a+1]=c(o(n),n)a[#a+1]=v('>I2I4I4I4I4',n.D,e.u,e.t/p,i(e),i(h))a[#a+1]=e.r a[#a+1]=h.r end\
 redis.call('HSET',KEYS[1],'m',table.concat(a))for l in pairs(t)do if f[l]then redis.call('HSET',KEYS[1],'i'..\
l,A(f[l]))e=true else redis.call('HDEL',KEYS[1],'i'..l)end end if e then m()end end
local function p(l,r)local a={}if#l==1 and n==''and not r and o(l[1])=='L'then a[1],a[2]=c('A',l[1]),l[1]\
.e.r else
local e='B'a[1]=''for t,n in ipairs(l)do
local t=o(n)if t=='R'then e='C'end a[#a+1]=c(t,n)a[#a+1]=v('>I2I4I4',n.D,i(n.e),i(n.h))a[#a+1]=n.e.r a[#a+1]=n\
.h.r end a[1]=v('>cI3I2',e,#l,E)a[#a+1]=n end return table.concat(a)end
local function k(l)local e=0 for t,n in ipairs(l)do if n.e.t>0 then return false end e=e+#n.e.r+#n.h.r end ret\
urn e<I/2 and redis.call('HLEN',KEYS[1])<=24 end
local function O()local o=J X(o)local l,r,i={},false,d for t,n in ipairs(h)do
local e,h=n.e,n.h if e.d+h.d>0 then l[#l+1]=n r=r or h.d>0 o=a(n,o)i=math.max(i,e.d>0 and w(e,e.d)or 0,h.d>0 a\
nd w(h,h.d)or 0)else n.g=true end end
local a=C('')if a then i=math.max(i,a.c)end
local c=#l==0 or a for l in pairs(t)do if f[l]then i=math.max(i,f[l].c)c=c or#f[l].f==0 end end
local q=u if r then o=math.max(o,D)elseif c then o=math.max(o,ee)end
local a=math.ceil(i-d+o+o/32)if u and k(l)then L()for l,e in pairs(f)do t[l]=e and true or nil end redis.call(\
'DEL',KEYS[1])u=false end if not u then B(q)if#l==0 and n==''then if e and not q then redis.call('DEL',KEYS[1]\
)end return end
local i=p(l,r)if#i<=I then redis.call('SET',KEYS[1],i,'PX',a)return end L()for l,e in pairs(f)do t[l]=e and tr\
ue or nil end if e and not q then redis.call('DEL',KEYS[1])end u=true end H(l)redis.call('PEXPIRE',KEYS[1],a)e\
nd if b==100 then return redis.call('DEL',KEYS[1])==1 and'1'or'0'end if u or e then
local e=pcall(u and ef or ec)if not e then return redis.error_reply('INVALIDSTATE the key holds something else\
 than limits')end end
local l=ARGV[4]~=''and ARGV[4]or nil if b==104 then if not e and not u then return'0'end X(J)for t,n in ipairs\
(h)do if n.e.d+n.h.d>0 then return'1'end end L()for t,e in pairs(f)do if e then return'1'end end return'0'end \
if b==120 then
local e=C(l)if not e then return'0'end U(e)K(l,nil)O()return'1'end if b==115 then for t,n in ipairs(cjson.deco\
de(ARGV[5]))do if not C(n[1])then
local e={c=n[2],e=n[3],i=n[4],a=false,f=Y(n[5])}G(e)K(n[1],e)end end O()return'1'end if b==98 then
local A,e=C(''),ARGV[5]+0 K('',e>0 and{c=d+e,i=1,e=true,a=false,f={}}or nil)O()return(A and A.c>d and'1'or'0')\
..v('>I7',d+e)end
local c,B={},{}local a=10+8*j(0,0,S,T,M)for l=1,q(z,a)do
local o=a+3+12*(l-1)local a,f=q(z,o+3),s(z,o+11)c[l]={v=q(z,o)+1,x=a,y=f>=2 and y or a,s=j(s(z,o+6,o+10)),B=f%\
2==1,}end a=a+3+12*#c for l=1,q(z,a)do B[l]=q(z,a+3*l)+1 end
local E,m=h,{}local i=r(g,13)if#h==1 and h[1].j==i and#B==0 then for l=1,#c do m[c[l].v]=h[1]end else
local t=ei(i)if#B>0 and#B<#t then
local e={}for l,n in ipairs(B)do e[l]=t[n]end Y(e)end E=Y(t)for l,o in ipairs(t)do for t,n in ipairs(E)do if N\
(er(n),o)then m[l]=n end end end end for t,o in ipairs(c)do
local n=m[o.v]if o.s>n.b then n.b=o.s end if 2*o.x>n.m then n.m=2*o.x end end
local o=Z()local T,V,M=o[2],o[3]%2==1,math.floor(o[3]/2)local a=C('')local I=a and a.c>d and a.c or 0 if I>0 t\
hen for t,w in ipairs({0,I,I})do o[#o+1]=w end end
local function t(n)while true do
local e=n for l=4,#o,3 do if o[l]<=n and n<o[l+1]and o[l+2]>e then e=o[l+2]end end if e==n then return n end n\
=e end end
local k=l and C(l)or nil if k then U(k)end
local H,C,S=b==116,b==102,b==70
local g=b==114 or b==112
local p=k and(g or(H and k.e))local i=k and k.i or j(0,0,P,Q,R)local P=math.max(d,o[1])local D=t(P)local z,j,q\
='',{},u if u then for l,o in ipairs(c)do
local e=m[o.v].e j[l]=x(e,d)-x(e,d-o.s)end else if k then z='\\255'..l..'\\254'..A(k)end if I>0 then z=z..'\\2\
55\\254'..A(a)end if g and M==2 then L()for o,e in pairs(f)do if e and e~=k and e.a and not e.e then z=z..'\\2\
55'..o..'\\254'..A(e)end end end z=(e and r(e,1,#e-#n)or'')..z end
local J
local function r()local e={}J={}for t,o in ipairs(c)do
local n=m[o.v]e[n]=e[n]or(C and n.e or eo(n))J[o.v]=e[n]end end
local function R(e,o,l,n)local r,h=o.y-l+1,o.s if r<1 then return y end if e.d<r then return n end
local u=x(e,n-h)while e.n and u+r<=e.d do
local x,t=W(e,u+1)local l,o=W(e,u+r)if l-h>=n then return n end if l-x<h then n=x+h end u=math.min(t,o-r+1)end\
 while u+r<=e.d do
local l=w(e,u+r)if l-h>=n then break end
local x=w(e,u+1)if l-x<h then n=x+h end u=u+1 end return n end
local function a(o,n)return R(J[o.v],o,i,n)end
local function o()local e,n=true,false for t,o in ipairs(c)do if a(o,D)>D then e=false n=n or o.B end end retu\
rn e,n end
local function h(n)for t,o in ipairs(c)do if a(o,n)>n then return false end end return true end
local function Q()local n=D while true do
local l repeat l=false for t,o in ipairs(c)do
local e=a(o,n)if e>=y then return y end if e>n then n,l=e,true end end until not l
local e=t(n)if e==n or e>=y then return e end n=e end end
local function A(t,i)if t.c~=i.c then return t.c<i.c end for l=1,math.min(#t.l,#i.l)do
local e,n=s(t.l,l),s(i.l,l)if e~=n then return e<n end end return#t.l<#i.l end
local s={}local function W(l)local a={}L()for o,e in pairs(f)do if e and e.a and not e.e and e~=k then
local l=false for t,n in ipairs(e.f)do l=l or N(E,n)end if l then a[#a+1]={l=o,c=e.c,q=e}end end end if#a==0 t\
hen return end table.sort(a,A)for t,n in ipairs(a)do U(n.q)end r()local t,n=o()local e=Q()if n or e>=l or e-P>\
T then for t,n in ipairs(a)do G(n.q)end return end for t,n in ipairs(a)do G(n.q)r()local t,l=o()if l or not h(\
e)then U(n.q)K(n.l,nil)s[#s+1]=n.l end end return e end r()local e,n=o()n=n and g and not p
local t=D if p then t=k.c elseif S then t=d elseif not e then t=Q()if g and M==2 then
local e=W(n and y or t)if e then t,n=e,false end end end
local A={}if u then r()for l,o in ipairs(c)do A[l]=a(o,D)<=D end end
local o=S or((H or C)and not p and t==d)local h=t<=ea if C then h=h and not o else h=h and g and t-P<=T and no\
t n end if H and not o and not p then
local e={}for t,n in ipairs(B)do if not e[m[n]]then et(m[n].e,d,i)end e[m[n]]=true end if u and#B>0 then r()t=\
Q()end end
local e=k if o then e={c=d,i=i,e=true,a=k and k.a or false,f=E}elseif C then e=h and{c=t,i=i,e=false,a=k and k\
.a or false,f=E}or nil elseif h and not p and b==114 then e={c=t,i=i,e=V,a=M==1,f=E}end
local u=S or C or(b==114 and not p and h)or(H and not p and(o or#B>0))local g=o and'1'or(h and not p)and'2'or'\
0'if not q then if u then if e then G(e)end if l then K(l,e)end O()end return'g'..F..v('>I7',t)..g..z end
local function f()for l,o in ipairs(c)do
local e,r,h=J[o.v],o.y-i+1,o.s if r<1 then if t>=y then return l end elseif t<y and a(o,t)==t then
local u=x(e,t-h-1)if u+r<=e.d then
local x=w(e,u+1)if x+h==t and w(e,u+r)-x<h then return l end end end end return 0 end
local r=0 if n then for l=#c,1,-1 do if c[l].B and not A[l]then r=l end end elseif t>(p and d or D)then\
 r=f()end
local y=e and e.e and e.c<=d if y then G(e)end
local a,i={},{}local function f(e,o)local s=x(e,d)local l,t=s-x(e,d-o.s),s+1 while t<=e.d do
local n=w(e,t)if n>=d+o.s then break end
local p=x(e,n)l=math.max(l,p-x(e,n-o.s))t=p+1 end return math.max(0,o.x-l)end for l,o in ipairs(c)do
local n=m[o.v]local e,t=n.e,n.h
local g,s=x(e,d-o.s),x(e,d)i[n]=i[n]or eo(n)a[l]=string.format(',%d,%d,%d,%d,%d,%d,%d',j[l],math.max(0,o.x-s+g\
),f(i[n],o),t.d-x(t,d-o.s)+e.d-s,R(i[n],o,1,d),g<s and w(e,g+1)+o.s or d,A[l]and 1 or 0)end if e and not y the\
n G(e)end for t,o in ipairs(s)do a[#a+1]=','..cjson.encode(o)end if l then K(l,e)end
local f=(p and 1 or 0)+(p and k.e and 2 or 0)+(h and 4 or 0)+(o and k and k.e and 8 or 0)if u then O()end retu\
rn string.format('r%d,%d,%d,%d,%d,%d',d,t,g,f,r,I)..table.concat(a)end)()`
