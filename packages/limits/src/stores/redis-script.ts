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
export const scriptSha = '60638ed363bd2ed9dbc1f70aaf62b02eb7ba303d'
export const script = `\
local P,m,e=ARGV[1],ARGV[2],nil
local c,o,k,f=string.byte,string.sub,struct.pack,struct.unpack
local d,G=ARGV[5],(ARGV[8]or 8192)+0 if d==''or not d then
local e=redis.call('TIME')local n=e[2]+0 d=e[1]*1000+(n-n%1000)/1000 else d=d+0 end
local D=k('>I6',d)local v,J,K,M,I=c(P,1,5)if I==126 then I=nil
local n=(function()local e,p,s=KEYS[1],ARGV[3],#m
local n=redis.pcall('STRLEN',e)if type(n)=='table'or n<=G or s==12 then return end
local w,i,x=redis.call('GETRANGE',e,0,s-1),ARGV[4]+0,m if w~=m then if c(w)~=65 or o(w,10)~=o(m,10)then r\
eturn end
local d,u,p,t,r,f,s,h=c(w,2,9)local k,b,v,y,q,a,z,A=c(m,2,9)local l=(((t*128+r)*128+f)*128+s)*128+h
local c=(((y*128+q)*128+a)*128+z)*128+A
local e=(k*128+b)*128+v>(d*128+u)*128+p x='A'..o(e and m or w,2,4)..o(c>l and m or w,5)if l>i then i=\
l end end
local u,r,l=(n-s)/6,(J*128+K)*128+M,c(p)local function j(l)local i=s+6*l-6 return(f('>I6',redis.call('GETRANGE\
',e,i,i+5)))end
local h=j(u)if h>d or l==49 then return end
local a,g,t=5+8*((c(p,2)*128+c(p,3))*128+c(p,4)),{},d
local z=(c(p,a)*128+c(p,a+1))*128+c(p,a+2)for l=1,z do
local i=a+6+12*(l-1)local k,b,v,e,m,w,n,a,f=c(p,i,i+8)local o,c=(k*128+b)*128+v,(((e*128+m)*128+w)*128\
+n)*128+a
local n=f>=2 and 9e15 or o
local i,e=n-r+1,d if i<1 then e=9e15 elseif i<=u then e=j(u-i+1)+c end if e>t then t=e end g[l]={y=n,o=o,c=\
c,C=e}end
local G=t<=d
local y=G and v==116 if not G and v==116 and l~=48 then return end
local b,p={},y and r or 0
local m,a=0,{}for l=1,z do
local o=g[l]local c,n=o.c,o.y
local i=b[c]if not i then
local a,t,n=0,u,d-c if h<=n then a=u end while a<t and t-a>48 do
local d=a+t
local o=(d-d%2)/2 if j(o+1)<=n then a=o+1 else t=o end end if a<t then
local r,g=redis.call('GETRANGE',e,s+6*a,s+6*t-1),a while a<t do
local d=a+t
local o=(d-d%2)/2 if f('>I6',r,6*(o-g)+1)<=n then a=o+1 else t=o end end end i,b[c]=a,a end if o.C>d and o.C==\
t and m==0 then m=l end
local h,t,f,e=u-i,u+p-n,d,d if n-h-p<=0 then f=n==0 and 9e15 or(t<u and j(t+1)or d)+c end if h>0 then e=j(i+1)\
+c elseif y then e=d+c end
local t=math.max(0,o.o-h-p)a[l]=k('>I4I4I4I4I7I7I1',h,t,t,0,f,e,h+r<=n and 1 or 0)end if y then
local n,k,b,v=i/8,c(x,2,4)local j=(k*128+b)*128+v if x~=w then redis.call('SETRANGE',e,0,x)end redis.call('APP\
END',e,r==1 and D or string.rep(D,r))if u+r>2*j then redis.call('SET',e,x..redis.call('GETRANGE',e,-6*j,-1),'P\
X',math.ceil(i+n))elseif d-d%n~=h-h%n then redis.call('PEXPIRE',e,math.ceil(i+n))end end return'r'..D..k('>I7'\
,t)..(y and'1'or'0')..k('>I1I2I7',0,m,0)..table.concat(a)end)()if n then return n end end e=redis.pcall('GET',\
KEYS[1])local s=type(e)=='table'if s then if not string.find(e.err,'WRONGTYPE',1,true)then return e end elseif\
(v==116 or v==99)and not I and not(e and#e>G)then
local p,s,g,i=ARGV[3],#m,e,ARGV[4]+0 if s==12 then g=nil elseif not e then g=m elseif o(e,1,s)~=m then g=nil i\
f c(e)==65 and o(e,10,s)==o(m,10)then
local d,u,p,t,r,f,s,h=c(e,2,9)local k,b,v,y,q,a,z,A=c(m,2,9)local n,B=(d*128+u)*128+p,(k*128+b)*128+v
local l=(((t*128+r)*128+f)*128+s)*128+h
local c=(((y*128+q)*128+a)*128+z)*128+A g='A'..o(B>n and m or e,2,4)..o(c>l and m or e,5,9)..o(e,10)if l>i the\
n i=l end end end
local l,N,O,P=c(p,1,4)if g and l~=49 then
local r=(J*128+K)*128+M
local n=#g
local u,h,t=(n-s)/6,0,d if u>0 then h=f('>I6',g,n-5)end for a=5,8*((N*128+O)*128+P),8 do
local k,b,v,l,o,d,s,m=c(p,a,a+7)local i=(k*128+b)*128+v-r+1 if i>u then break end if i<1 then t=9e15 \
break end
local c=(((l*128+o)*128+d)*128+s)*128+m
local e=(i==1 and h or(f('>I6',g,n-6*i+1)))+c if e>t then t=e end end if h>d or t>d and v==116 and l~=48 then \
t=nil elseif t>d or v==99 then return'q'..D..k('>I7',t)..'0'..(e or'')end if t then
local p=r==1 and D or string.rep(D,r)local l,a=g..p,g~=e if u+r>256 then
local k,b,v=c(g,2,4)local j=(k*128+b)*128+v if u+r>2*j then l,a=o(g,1,s)..o(l,-6*j),true end end
local n=i/8 if not a and d-d%n==h-h%n then redis.call('APPEND',KEYS[1],p)else redis.call('SET',KEYS[1],l,'PX',\
math.ceil(i+n))end return l end end end
local function q(e,u)local r=''for t=1,u do r=string.char(e%128)..r e=math.floor(e/128)end return r end
local n=not s and(function()local p,s,l=ARGV[3],#m,ARGV[6]if l==''then l=nil end
local F,H,A=v==116,v==114,v==102 if not(F or H or A or v==99)or s==12 or c(p)~=48 then return end
local x,B,C,u,j=m,'\\0\\0','\\0\\1',0,0
local y,g,n,z,w='','','',e or'',nil if e then
local t,l=c(e),nil if t==65 and o(e,10,s)==o(m,10)then w,y=o(e,2,9),o(e,s+1)u=#y/6 elseif o(e,1,4)=='B\\0\\0\
\\1'and o(e,16,s+6)==o(m,10)then w,C,B=o(e,8,15),o(e,5,6),o(e,s+7,s+8)u,j=f('>I4I4',e,s+9)l=s+16+6*u y,g=o(e,s\
+17,l),o(e,l+1,l+6*j)l=l+6*j n,z=o(e,l+1),o(e,1,l)else return end end
local t,a=string.find(n,'\\255\\254',1,true)if a then
local t,r,f,s,h,e,l=c(n,a+1,a+7)if((((((t*128+r)*128+f)*128+s)*128+h)*128+e)*128+l)>d then return end end if u\
>0 and f('>I6',y,6*u-5)>d then return end
local E,L,a,i=1e18,false,false,nil
local r=ARGV[7]if r and r~=''then
local e,n,l,t,u,s,h,p,g,k,b,m,v,w,f=c(r,1,15)if((((((e*128+n)*128+l)*128+t)*128+u)*128+s)*128+h)>d then return\
 end E=(((((p*128+g)*128+k)*128+b)*128+m)*128+v)*128+w L,a=f%2==1,f%4>=2 if#r>15 then i=cjson.decode(o(r,16))f\
or l=1,#i,3 do if i[l]<=d and d<i[l+1]then return end end end end
local r,b,s,h=(J*128+K)*128+M,'',nil,nil if l then b='\\255'..l..'\\254's,h=string.find(n,b,1,true)end if r>4 \
and v~=99 then return end if A then if not s then return end
local d,u,p,l,i,b,v,e,m,w,f,y,q=c(n,h+1,h+13)if f%2==1 or y~=0 or q~=1 then return end
local t=(((((d*128+u)*128+p)*128+l)*128+i)*128+b)*128+v r=(e*128+m)*128+w
local v,i=k('>I6',t),0 repeat i=string.find(g,v,i+1,true)until not i or i%6==1 if not i then return end g,j=o(\
g,1,i-1)..o(g,i+6*r),j-r z,a=z..o(n,s,h+15),f>=2 n=o(n,1,s-1)..o(n,h+16)elseif s or j>0 then return end
local t,N,O,P=d,c(p,2,4)for a=5,8*((N*128+O)*128+P),8 do
local k,b,v,l,o,d,s,m=c(p,a,a+7)local i=(k*128+b)*128+v-r+1 if i<1 then return end if i>u then break end
local e=f('>I6',y,6*(u-i)+1)+(((l*128+o)*128+d)*128+s)*128+m if e>t then t=e end end
local e='1'if t>d and H or A and t>d then if i or j>0 or I==42 then return end e='2'elseif H then e='2'elseif \
t>d or not F and not A then e='0'end if H and t-d>E then e='0'end
local s='g'..D..k('>I7',t)..e..z if e=='0'then return s end
local i,v=ARGV[4]+0,k('>I6',t)local p=r==1 and v or string.rep(v,r)local v=L or not H and e=='1'if v then y,u=\
y..p,u+r else g,j=p,r if i<26784e5 then i=26784e5 end end if j>0 and v and i<26784e5 then i=26784e5 end x=o(m,\
2)if w and w~=o(m,2,9)then
local d,u,p,t,r,f,s,h=c(w,1,8)local k,b,v,y,q,a,z,A=c(m,2,9)local j,B=(d*128+u)*128+p,(k*128+b)*128+v
local l=(((t*128+r)*128+f)*128+s)*128+h
local c=(((y*128+q)*128+a)*128+z)*128+A x=o(B>j and m or' '..w,2,4)..o(c>l and m or' '..w,5,9)..o(m,10)if l>i \
then i=l end end
local e,o,h=c(x,1,3)if u>2*((e*128+o)*128+h)then return end
local e=''if l then e=b..q(t,7)..q(r,3)..string.char((v and 1 or 0)+(a and 2 or 0))..'\\0\\1'..q(f('>I2'\
,B),2)end
local l='B\\0\\0\\1'..C..'L'..x..B..k('>I4I4',u,j)..y..g..n..e if#l>G then return end
local e=t if j>r or v and j>0 then
local n=f('>I6',g,#g-5)if n>e then e=n end end redis.call('SET',KEYS[1],l,'PX',math.ceil(e-d+i+i/32))return s \
end)()if n then return n end return(function()local y,W=9e15,281474976710655
local K,r,h,B=864e5,31*864e5,math.ceil(G/64),4
local g,u,w,p,n,C={},{},{},{},'',1
local L,N=false,false
local function t(r,a,u)local e=0 for l=a,a+u-1 do e=e*128+c(r,l)end return e end
local function a(r,n)local e={i=r,d=#r/6,t=0,s=0,v={},n=n}if n then e.d=f('>I6',r,#r-5)-f('>I6',r)end ret\
urn e end
local function T(e,l)local g=f('>I6',e.i)local a,t=0,(#e.i-6)/12-1 while a<t do
local d=a+t
local o=(d-d%2)/2 if f('>I6',e.i,12*o+13)-g<l then a=o+1 else t=o end end
local t,l=f('>I6I6',e.i,12*a+7)return t,l-g end
local function z(e,n)local a,t=0,(#e.i-6)/12 while a<t do
local d=a+t
local o=(d-d%2)/2 if f('>I6',e.i,12*o+7)<=n then a=o+1 else t=o end end return a end
local function A(e,l)local r=e.x[l]if not r then r=redis.call('HGET',KEYS[1],e.h..e.s+l)e.x[l]=r end ret\
urn r end
local function j(e,l)if e.n then return(T(e,l))end
local n=l-e.t if n>0 then return(f('>I6',e.i,6*n-5))end
local r=(l-1)%h return(f('>I6',A(e,(l-1-r)/h),6*r+1))end
local function b(e)if not e.p then e.p=redis.call('HGET',KEYS[1],e.h)end return e.p end
local function O(e)if e.t>0 then return(f('>I6',b(e)))end if e.n and e.d>0 then return(f('>I6',e.i,7))end retu\
rn e.d>0 and(f('>I6',e.i))or nil end
local function x(e,n)local a,t=0,e.d if t==0 or j(e,t)<=n then return t end
local y=e.v[n]if y then return y end if e.n then
local a=z(e,n)return a==0 and 0 or f('>I6',e.i,12*a+1)-f('>I6',e.i)end if e.t>0 and(e.i==''or f('>I6',e.\
i)>n)then
local r,i,c=b(e),0,e.t/h while i<c do
local d=i+c
local o=(d-d%2)/2 if f('>I6',r,6*o+1)<=n then i=o+1 else c=o end end if i==0 then e.v[n]=0 return 0 end a,t=h*\
(i-1)+1,h*i else a=e.t end while a<t do
local d=a+t
local o=(d-d%2)/2 if j(e,o+1)<=n then a=o+1 else t=o end end e.v[n]=a return a end
local function i(e)local a={}for l=0,e.t/h-1 do a[#a+1]=A(e,l)e.b[#e.b+1]=e.h..e.s+l end a[#a+1]=e.i e.s,e.t,e\
.p,e.x=e.s+e.t/h,0,'',{}e.i=table.concat(a)end
local function l(e)if e.n then return end if e.t>0 then i(e)end
local a,h={k('>I6',0)},nil for l=1,e.d do
local t=o(e.i,6*l-5,6*l)if t~=h then a[#a+1]=t..k('>I6',l)else a[#a]=t..k('>I6',l)end h=t end e.i,e.n,e.v=tabl\
e.concat(a),true,{}end
local function E(r,n)local a={}for i=1,#r,12 do
local t,l=f('>I6I6',r,i)a[#a+1]=k('>I6I6',t,l+n)end return table.concat(a)end
local function A(e,t,n)local a=z(e,t)local i=12*a+7
local l=f('>I6',e.i,i-6)local d=o(e.i,1,i-1)if a>0 and f('>I6',e.i,i-12)==t then d=o(e.i,1,i-13)local o=l-f('>\
I6',e.i,i-18)if n<-o then n=-o end if n>-o then d=d..k('>I6I6',t,l+n)end elseif n>0 then d=d..k('>I6I6',t,l+n)\
else return end e.i,e.d,e.v=d..E(o(e.i,i),n),e.d+n,{}end
local function X(e,t,r)if r>B then l(e)end if e.n then return A(e,t,r)end
local l,p=x(e,t),k('>I6',t)if r>1 then p=string.rep(p,r)end if l==e.d then e.i=e.i..p else if l<e.t the\
n i(e)end
local n=6*(l-e.t)e.i,e.v=o(e.i,1,n)..p..o(e.i,n+1),{}end e.d=e.d+r end
local function E(e,t,r)if e.n then return A(e,t,-r)end
local h=x(e,t)local s=h while s>0 and h-s<r and j(e,s)==t do s=s-1 end if s==h then return end if s<e.t then i\
(e)end e.i=o(e.i,1,6*(s-e.t))..o(e.i,6*(h-e.t)+1)e.d,e.v=e.d-(h-s),{}end
local function B(e,u)if u<=0 then return end N,e.v=true,{}if e.n then
local b,g,i=math.min(u,e.d),f('>I6',e.i),7 while i<=#e.i and f('>I6',e.i,i+6)-g<=b do i=i+12 end e.i,e.d=k('>I\
6',g+b)..o(e.i,i),e.d-b return end
local a=math.floor(math.min(u,e.t)/h)if a>0 then e.p=o(b(e),6*a+1)for l=0,a-1 do e.b[#e.b+1]=e.h..e.s+l end e.\
s,e.t,e.d,e.x=e.s+a,e.t-a*h,e.d-a*h,{}u=u-a*h end if e.t==0 then e.i,e.d=o(e.i,6*u+1),e.d-u end end
local function z(e)if e.t>0 then i(e)end return a(e.i,e.n)end
local function Y(n)local t,r=n.e,n.g if r.d==0 then return t end if t.n or r.n then
local e,n=z(t),z(r)l(e)l(n)local z=f('>I6',n.i)for i=7,#n.i,12 do
local t,l=f('>I6I6',n.i,i)A(e,t,l-z)z=l end return e end
local e={i=t.i,d=t.d,t=t.t,s=t.s,h=t.h,x=t.x}e.p,e.b,e.v=t.p,{},{}local d=x(t,(f('>I6',r.i)))if d<e.t the\
n i(e)end
local i,a=6*(d-e.t)+1,{o(e.i,1,6*(d-e.t))}if i<=#e.i then for l=1,r.d do
local n,c=j(r,l),i while c<=#e.i and f('>I6',e.i,c)<=n do c=c+6 end a[#a+1]=o(e.i,i,c-1)a[#a+1]=o(r.i,6*l-5,6*\
l)i=c end a[#a+1]=o(e.i,i)else a[2]=r.i end e.i,e.d=table.concat(a),t.d+r.d return e end
local function Q(e)for t,n in ipairs(e.u)do E(e.e and n.e or n.g,e.f,e.r)end end
local function H(e)for t,n in ipairs(e.u)do X(e.e and n.e or n.g,e.f,e.r)end end
local function M(g,e)for l=1,#g do if g[l]==e then return true end end return false end
local function R(r)local e,a={},1 while a<#r do
local n=t(r,a,2)e[#e+1]=o(r,a+2,a+1+n)a=a+2+n end return e end
local function S(n)if not n.k then n.k=R(n.z)end return n.k end
local function U(n,r,t,v,m,e)local l=t+(e and 6+12*v or 6*v)local i=l+(e and 6+12*m or 6*m)if i>#r+1 then erro\
r('length')end n.e,n.g=a(o(r,t,l-1),e),a(o(r,l,i-1),e)return i end
local function F(r,a)local l=a+12+t(r,a+9,3)local n={j=t(r,a+1,3),l=t(r,a+4,5)}n.z=o(r,a+12,l-1)retur\
n n,l end
local function V()if c(e)==65 then
local n,i=F(e,1)if(#e-i+1)%6~=0 then error('length')end n.e,n.g,n.B=a(o(e,i)),a(''),0 g[1]=n return end if c(e\
)~=66 and c(e)~=67 then error('form')end
local z,a=f('>I3',e,2),7 C=f('>I2',e,5)for l=1,z do
local n,i=F(e,a)local B,v,m,t=f('>I2I4I4',e,i)n.B=B a=U(n,e,t,v,m,c(e,a)==82)g[l]=n end n=o(e,a)end
local function i(e)if(e.A or#e.u)==0 then return e.f<=d-K end if not e.e then return e.f<=d-r end for t,n in i\
pairs(e.u)do
local s=O(n.e)if s and s<=e.f then return false end end return true end
local function E(r)local f=c(r,11)local e={f=t(r,1,7),r=t(r,8,3),e=f%2==1,a=f>=2}e.u,e.A={},t(r,12,2)for l\
=1,e.A do
local B=t(r,12+2*l,2)for t,n in ipairs(g)do if n.B==B then e.u[#e.u+1]=n end end end return e end
local function A(l)if u[l]~=nil then return u[l]end
local r if s then r=redis.call('HGET',KEYS[1],'i'..l)else
local t,i=string.find(n,'\\255'..l..'\\254',1,true)local l=i and string.find(n,'\\255',i,true)or 0 r=i and o(n\
,i+1,l-1)end
local e=r and E(r)w[l]=e~=nil u[l]=e and not i(e)and e or false return u[l]end
local function I(l,e)u[l],p[l]=e or false,true end
local function J()if L then return end L=true
local function t(l,r)if u[l]==nil then
local e=E(r)w[l]=true u[l]=not i(e)and e or false if not u[l]then p[l]=true end end end if s then
local e=redis.call('HGETALL',KEYS[1])for l=1,#e,2 do if c(e[l])==105 then t(o(e[l],2),e[l+1])end end else for \
l,r in string.gmatch(n,'\\255([^\\254]*)\\254([^\\255]*)')do t(l,r)end end end
local function L(e)local i,n,r={},{},{}for t,o in ipairs(e)do
local e for t,n in ipairs(g)do if M(S(n),o)then e=n end end if not e then n[#n+1]=o elseif r[e]then table.inse\
rt(r[e],o)else r[e]={o}i[#i+1]=e end end
local function e(n)n.B,C=C,(C+1)%16384 g[#g+1]=n end for l,n in ipairs(i)do if#r[n]<#n.k then J()local d={k=r[\
n],j=n.j,l=n.l}d.e,d.g=z(n.e),z(n.g)local r={}for t,o in ipairs(n.k)do if not M(d.k,o)then r[#r+1]=o end end n\
.k,n.z=r,nil for l,e in pairs(u)do if e and M(e.u,n)then table.insert(e.u,d)e.A,p[l]=#e.u,true end end e(d)i[l\
]=d end end if#n>0 then e({k=n,j=128,l=0,e=a(''),g=a('')})i[#i+1]=g[#g]end return i end
local function Z()local e=redis.call('HGET',KEYS[1],'m')local z,a=f('>I3',e,2),7 C=f('>I2',e,5)for l=1,z do
local n,i=F(e,a)local B,s,o,v,m,t=f('>I2I4I4I4I4',e,i)a=U(n,e,t,v,m,c(e,a)==82)local e,t=n.e,o*h e.d,e.t,e.s,e\
.x,e.b=e.d+t,t,s,{},{}e.h,e.p,n.B='f'..B..':',o==0 and''or nil,B g[l]=n end end
local function a(n,i)if n.l==0 then return math.max(i,r)end return math.max(i,n.l)end
local function U(i)for t,n in ipairs(g)do
local o,s=d-a(n,i),O(n.e)if s and s<=o then B(n.e,x(n.e,o))end if n.g.d>0 then B(n.g,x(n.g,d-r))end if n.l>0 a\
nd n.e.d>2*n.j then B(n.e,x(n.e,d)-n.j)end end end
local function f(n)local e,g=n.e,n.g if not e.n and not g.n then return'L'end l(e)l(g)return'R'end
local function B(e)return e.n and(#e.i-6)/12 or e.d-e.t end
local function F(t,n)local e=n.z if not e then
local r={}for l,o in ipairs(n.k)do r[l]=q(#o,2)..o end e=table.concat(r)end return t..q(n.j,3)..q(n.l,5)..q(#e\
,3)..e end
local function z(e)local o,l={},0 for t,n in ipairs(e.u)do if not n.b then l=l+1 o[l]=q(n.B,2)end end
local f=string.char((e.e and 1 or 0)+(e.a and 2 or 0))return q(e.f,7)..q(e.r,3)..f..q(l,2)..table.con\
cat(o)end
local function q(B)local e,a=#n,{}for l in pairs(p)do
local b='\\255'..l..'\\254'if w[l]and not B then
local i,l=string.find(n,b,1,true)l=string.find(n,'\\255',l,true)or#n+1 n=o(n,1,i-1)..o(n,l)end if u[l]then a[#\
a+1]=b..z(u[l])end end n=n..table.concat(a)if n~=''and(N or math.floor(#n/2048)>math.floor(e/2048))then n=stri\
ng.gsub(n,'(\\255[^\\254]*\\254)([^\\255]*)',function(t,r)if i(E(r))then return''end end)end end
local function w()local e=redis.call('HRANDFIELD',KEYS[1],3,'WITHVALUES')for l=1,#e,2 do if c(e[l])==105 and u\
[o(e[l],2)]==nil and i(E(e[l+1]))then redis.call('HDEL',KEYS[1],e[l])end end end
local function i(n)local e=n.e if not e.h then e.h,e.x,e.b,e.p='f'..n.B..':',{},{},''end
local i,p=1,{}while not e.n and#e.i-i+1>9*h do
local r=o(e.i,i,i+6*h-1)redis.call('HSET',KEYS[1],e.h..e.s+e.t/h,r)p[#p+1]=o(r,1,6)e.t,i=e.t+h,i+6*h end if i>\
1 then e.p=b(e)..table.concat(p)e.i=o(e.i,i)end if#e.b>0 then for l=1,#e.b do redis.call('HDEL',KEYS[1],e.b[l]\
)end end if e.t==0 then redis.call('HDEL',KEYS[1],e.h)elseif i>1 or#e.b>0 then redis.call('HSET',KEYS[1],e.h,e\
.p)end end
local function b(l)local a,e={k('>cI3I2','H',#l,C)},false for t,n in ipairs(l)do f(n)end for t,n in ipairs(g)d\
o if n.b or n.e.d>0 then i(n)end end for t,n in ipairs(l)do
local e,g=n.e,n.g a[#a+1]=F(f(n),n)a[#a+1]=k('>I2I4I4I4I4',n.B,e.s,e.t/h,B(e),B(g))a[#a+1]=e.i a[#a+1]=g.i end\
 redis.call('HSET',KEYS[1],'m',table.concat(a))for l in pairs(p)do if u[l]then redis.call('HSET',KEYS[1],'i'..\
l,z(u[l]))e=true else redis.call('HDEL',KEYS[1],'i'..l)end end if e then w()end end
local function h(l,c)local a={}if#l==1 and n==''and not c and f(l[1])=='L'then a[1],a[2]=F('A',l[1]),l[1]\
.e.i else
local e='B'a[1]=''for t,n in ipairs(l)do
local t=f(n)if t=='R'then e='C'end a[#a+1]=F(t,n)a[#a+1]=k('>I2I4I4',n.B,B(n.e),B(n.g))a[#a+1]=n.e.i a[#a+1]=n\
.g.i end a[1]=k('>cI3I2',e,#l,C)a[#a+1]=n end return table.concat(a)end
local function f(l)local e=0 for t,n in ipairs(l)do if n.e.t>0 then return false end e=e+#n.e.i+#n.g.i end ret\
urn e<G/2 and redis.call('HLEN',KEYS[1])<=24 end
local function N()local i=ARGV[4]+0 U(i)local l,c,o={},false,d for t,n in ipairs(g)do
local e,g=n.e,n.g if e.d+g.d>0 then l[#l+1]=n c=c or g.d>0 i=a(n,i)o=math.max(o,e.d>0 and j(e,e.d)or 0,g.d>0 a\
nd j(g,g.d)or 0)else n.b=true end end
local a=A('')if a then o=math.max(o,a.f)end
local t=#l==0 or a for l in pairs(p)do if u[l]then o=math.max(o,u[l].f)t=t or#u[l].u==0 end end
local B=s if c then i=math.max(i,r)elseif t then i=math.max(i,K)end
local t=math.ceil(o-d+i+i/32)if s and f(l)then J()for l,e in pairs(u)do p[l]=e and true or nil end redis.call(\
'DEL',KEYS[1])s=false end if not s then q(B)if#l==0 and n==''then if e and not B then redis.call('DEL',KEYS[1]\
)end return end
local r=h(l,c)if#r<=G then redis.call('SET',KEYS[1],r,'PX',t)return end J()for l,e in pairs(u)do p[l]=e and tr\
ue or nil end if e and not B then redis.call('DEL',KEYS[1])end s=true end b(l)redis.call('PEXPIRE',KEYS[1],t)e\
nd if v==100 then return redis.call('DEL',KEYS[1])==1 and'1'or'0'end if s or e then
local e=pcall(s and Z or V)if not e then return redis.error_reply('INVALIDSTATE the key holds something else t\
han limits')end end
local l=ARGV[6]~=''and ARGV[6]or nil if v==104 then if not e and not s then return'0'end U(ARGV[4]+0)for t,n i\
n ipairs(g)do if n.e.d+n.g.d>0 then return'1'end end J()for t,e in pairs(u)do if e then return'1'end end retur\
n'0'end if v==120 then
local e=A(l)if not e then return'0'end Q(e)I(l,nil)N()return'1'end if v==115 then for t,n in ipairs(cjson.deco\
de(ARGV[7]))do if not A(n[1])then
local e={f=n[2],e=n[3],r=n[4],a=false,u=L(n[5])}H(e)I(n[1],e)end end N()return'1'end if v==98 then
local z,e=A(''),ARGV[7]+0 I('',e>0 and{f=d+e,r=1,e=true,a=false,u={}}or nil)N()return(z and z.f>d and'1'or'0')\
..k('>I7',d+e)end
local r,p,w=ARGV[3],{},{}local a=5+8*t(r,2,3)for l=1,t(r,a,3)do
local i=a+3+12*(l-1)local t,d,u,k,b,v,e,m,w,n,a,f=c(r,i,i+11)local o={m=(t*128+d)*128+u+1,o=(k*128+b)*128+v}o.\
y=f>=2 and y or o.o o.c,o.D=(((e*128+m)*128+w)*128+n)*128+a,f%2==1 p[l]=o end a=a+3+12*#p for l=1,t(r,a,3)do w\
[l]=t(r,a+3*l,3)+1 end
local K,f=g,{}local r=o(m,13)if#g==1 and g[1].z==r and#w==0 then for l=1,#p do f[p[l].m]=g[1]end else
local t=R(r)if#w>0 and#w<#t then
local e={}for l,n in ipairs(w)do e[l]=t[n]end L(e)end K=L(t)for l,o in ipairs(t)do for t,n in ipairs(K)do if M\
(S(n),o)then f[l]=n end end end end for t,o in ipairs(p)do
local n=f[o.m]if o.c>n.l then n.l=o.c end if 2*o.o>n.j then n.j=2*o.o end end
local h,E,R,L,i=0,2e16,0,false,{}local r=ARGV[7]if r and r~=''then h,E=t(r,1,7),t(r,8,7)if E>2*W then E=2e16 e\
nd L,R=c(r,15)%2==1,math.floor(c(r,15)/2)if#r>15 then i=cjson.decode(o(r,16))end end
local a=A('')local O=a and a.f>d and a.f or 0 if O>0 then
local h=#i i[h+1],i[h+2],i[h+3]=0,O,O end
local function g(n)while true do
local e=n for l=1,#i,3 do if i[l]<=n and n<i[l+1]and i[l+2]>e then e=i[l+2]end end if e==n then return n end n\
=e end end
local b=l and A(l)or nil if b then Q(b)end
local F,A,U=v==116,v==102,v==70
local m=v==114 or v==112
local i=b and(m or(F and b.e))local r=b and b.r or t(P,2,3)local V=math.max(d,h)local C=g(V)local q,h,B='',{},\
s if s then for l,o in ipairs(p)do
local e=f[o.m].e h[l]=x(e,d)-x(e,d-o.c)end else if b then q='\\255'..l..'\\254'..z(b)end if O>0 then q=q..'\\2\
55\\254'..z(a)end if m and R==2 then J()for o,e in pairs(u)do if e and e~=b and e.a and not e.e then q=q..'\\2\
55'..o..'\\254'..z(e)end end end q=(e and o(e,1,#e-#n)or'')..q end
local S
local function P()local e={}S={}for t,o in ipairs(p)do
local n=f[o.m]e[n]=e[n]or(A and n.e or Y(n))S[o.m]=e[n]end end
local function Z(e,o,l,n)local i,c=o.y-l+1,o.c if i<1 then return y end if e.d<i then return n end
local s=x(e,n-c)while e.n and s+i<=e.d do
local x,t=T(e,s+1)local l,o=T(e,s+i)if l-c>=n then return n end if l-x<c then n=x+c end s=math.min(t,o-i+1)end\
 while s+i<=e.d do
local l=j(e,s+i)if l-c>=n then break end
local x=j(e,s+1)if l-x<c then n=x+c end s=s+1 end return n end
local function a(o,n)return Z(S[o.m],o,r,n)end
local function o()local e,n=true,false for t,o in ipairs(p)do if a(o,C)>C then e=false n=n or o.D end end retu\
rn e,n end
local function G(n)for t,o in ipairs(p)do if a(o,n)>n then return false end end return true end
local function T()local n=C while true do
local l repeat l=false for t,o in ipairs(p)do
local e=a(o,n)if e>=y then return y end if e>n then n,l=e,true end end until not l
local e=g(n)if e==n or e>=y then return e end n=e end end
local function z(t,r)if t.f~=r.f then return t.f<r.f end for l=1,math.min(#t.w,#r.w)do
local e,n=c(t.w,l),c(r.w,l)if e~=n then return e<n end end return#t.w<#r.w end
local c={}local function g(l)local a={}J()for o,e in pairs(u)do if e and e.a and not e.e and e~=b then
local l=false for t,n in ipairs(e.u)do l=l or M(K,n)end if l then a[#a+1]={w=o,f=e.f,q=e}end end end if#a==0 t\
hen return end table.sort(a,z)for t,n in ipairs(a)do Q(n.q)end P()local t,n=o()local e=T()if n or e>=l or e-V>\
E then for t,n in ipairs(a)do H(n.q)end return end for t,n in ipairs(a)do H(n.q)P()local t,l=o()if l or not G(\
e)then Q(n.q)I(n.w,nil)c[#c+1]=n.w end end return e end P()local e,n=o()n=n and m and not i
local t=C if i then t=b.f elseif U then t=d elseif not e then t=T()if m and R==2 then
local e=g(n and y or t)if e then t,n=e,false end end end
local G={}if s then P()for l,o in ipairs(p)do G[l]=a(o,C)<=C end end
local o=U or((F or A)and not i and t==d)local g=t<=W if A then g=g and not o else g=g and m and t-V<=E and not\
 n end if F and not o and not i then
local e={}for t,n in ipairs(w)do if not e[f[n]]then X(f[n].e,d,r)end e[f[n]]=true end if s and#w>0 then P()t=T\
()end end
local e=b if o then e={f=d,r=r,e=true,a=b and b.a or false,u=K}elseif A then e=g and{f=t,r=r,e=false,a=b and b\
.a or false,u=K}or nil elseif g and not i and v==114 then e={f=t,r=r,e=L,a=R==1,u=K}end
local u=U or A or(v==114 and not i and g)or(F and not i and(o or#w>0))local s=o and'1'or(g and not i)and'2'or'\
0'if not B then if u then if e then H(e)end if l then I(l,e)end N()end return'g'..D..k('>I7',t)..s..q end
local function v()for l,o in ipairs(p)do
local e,i,c=S[o.m],o.y-r+1,o.c if i<1 then if t>=y then return l end elseif t<y and a(o,t)==t then
local s=x(e,t-c-1)if s+i<=e.d then
local x=j(e,s+1)if x+c==t and j(e,s+i)-x<c then return l end end end end return 0 end
local m=0 if n then for l=#p,1,-1 do if p[l].D and not G[l]then m=l end end elseif t>(i and d or C)then\
 m=v()end
local y=e and e.e and e.f<=d if y then H(e)end
local a,r={},{}local function v(e,o)local i=x(e,d)local l,t=i-x(e,d-o.c),i+1 while t<=e.d do
local n=j(e,t)if n>=d+o.c then break end
local h=x(e,n)l=math.max(l,h-x(e,n-o.c))t=h+1 end return math.max(0,o.o-l)end for l,o in ipairs(p)do
local n=f[o.m]local e,t=n.e,n.g
local b,i=x(e,d-o.c),x(e,d)r[n]=r[n]or Y(n)a[l]=k('>I4I4I4I4I7I7I1',h[l],math.max(0,o.o-i+b),v(r[n],o),t.d-x(t\
,d-o.c)+e.d-i,Z(r[n],o,1,d),b<i and j(e,b+1)+o.c or d,G[l]and 1 or 0)end if e and not y then H(e)end for l=1,#\
c do a[#a+1]='\\255'..c[l]..'\\254'end if l then I(l,e)end
local f=(i and 1 or 0)+(i and b.e and 2 or 0)+(g and 4 or 0)+(o and b and b.e and 8 or 0)if u then N()end retu\
rn'r'..D..k('>I7',t)..s..k('>I1I2I7',f,m,O)..table.concat(a)end)()`
