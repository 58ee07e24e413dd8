/* Built by internal/console/build from htmx 4.0.1 (0BSD). */
(()=>{var k=(()=>{let d={parse(p){if(!p)return{};if(p.startsWith("{"))return JSON.parse(p);let e=/(?:"([^"]+)"|'([^']+)'|([^\s,:]+))(?:\s*:\s*(?:"([^"]*)"|'([^']*)'|<((?:[^/]|\/(?!>))+)\/>|([^\s,]+)))?(?=\s|,|$)/g,
t={};for(let i of p.matchAll(e)){let[,s,n,r,a,l,f,h]=i,o=s??n??r,c=(a??l??f??h??"true").trim();try{c=JSON.parse(c)}catch{}let m=r?.includes(
".")?o.split(".").reduceRight((v,w)=>({[w]:v}),c):{[o]:c};d.merge(m,t)}return t},split(p){return p.split(/,(?![^\[]*\])(?![^(]*\))(?![^<]*\/>)(?=(?:[^"']|"[^"]*"|'[^']*')*$)/)},
merge(p,e){typeof p=="string"&&(p=d.parse(p));for(let[t,i]of Object.entries(p)){if(["__proto__","constructor","prototype"].includes(t))continue;
let s=i?.constructor===Object,n=e[t]?.constructor===Object;s&&n?d.merge(i,e[t]):e[t]=i}return e}};class S{#n=null;#i=[];admit(e,t,i){if(!this.#n)
return this.#n={strategy:e,abort:i},"run";if(e==="replace"||e!=="abort"&&this.#n.strategy==="abort")return this.#i=[],this.#n.abort?.(),this.#n=
{strategy:e,abort:i},"run";if(e==="queue all")this.#i.push(t);else if(e==="queue last")this.#i=[t];else if(e!=="abort"&&e!=="drop"&&this.#i.
length===0)this.#i.push(t);else return"dropped";return"queued"}continue(e){this.#n?.abort===e&&(this.#n=null,this.#i.shift()?.())}abort(){this.#n?.
abort?.()}}class C{#n=d;#i=new Map;#C="";#F=new Set;_loc=window.location;#q;#U=Function;#z=Object.getPrototypeOf(async function(){}).constructor;#A={
createHTML:e=>e,createScript:e=>e};#P;#ve="a,form";#we=["get","post","put","patch","delete","query"];#Q;#g;#I;#X;#b;constructor(){this.#Ee(),
this.#Se(),this.#P=this.#o("[hx-action],[hx-get],[hx-post],[hx-put],[hx-patch],[hx-delete],[hx-query]"),this.#Q=new XPathEvaluator().createExpression(
`.//*[@*[${this.#v("hx-on").map(t=>`starts-with(name(), "${t}")`).join(" or ")}]]`),this.#q={HCON:d,attributeValue:this.#t.bind(this),parseTriggerSpecs:this.#G.
bind(this),determineMethodAndAction:this.#J.bind(this),createRequestContext:this.#k.bind(this),collectFormData:this.#fe.bind(this),getAttributeObject:this.#D.
bind(this),insertContent:this.#N.bind(this),morph:this.#B.bind(this),isSoftMatch:this.#lt.bind(this),initSecurity:(t,i,s)=>{t&&(this.#A=t),i&&
(this.#U=i),s&&(this.#z=s)},onTrigger:this.#w.bind(this),htmxProp:this.#a.bind(this),triggerHtmxEvent:this.#e.bind(this),executeJavaScript:this.#f.
bind(this)};let e=()=>this.initialize();document.readyState==="loading"?document.addEventListener("DOMContentLoaded",e):setTimeout(e)}#Ee(){
this.version="4.0.1",this.config={logAll:!1,prefix:"data-hx-",transitions:!1,history:!0,mode:"same-origin",defaultSwap:"innerHTML",defaultFocusScroll:!1,
indicatorClass:"htmx-indicator",requestClass:"htmx-request",includeIndicatorCSS:!0,defaultTimeout:6e4,extensions:"",morphIgnore:["data-htmx-\
powered"],morphSkip:"[hx-morph-skip]",morphSkipChildren:"[hx-morph-skip-children]",morphScanLimit:10,noSwap:[204,304],implicitInheritance:!1,
defaultSettleDelay:1,allowEmptySwapAfterOOB:!1};let e=document.querySelector('meta[name="htmx-config"]');e&&d.merge(e.content,this.config),this.#C=
this.config.extensions}#Se(){if(this.config.includeIndicatorCSS!==!1){let e=this.config.indicatorClass,t=this.config.requestClass;try{this.indicatorStyleSheet=
new CSSStyleSheet,this.indicatorStyleSheet.replaceSync(`.${e}{opacity:0;visibility: hidden} .${t} .${e}, .${t}.${e}{opacity:1;visibility: vi\
sible;transition: opacity 200ms ease-in}`),document.adoptedStyleSheets.push(this.indicatorStyleSheet)}catch{}}}registerExtension(e,t){if(this.#C&&
!this.#C.split(/,\s*/).includes(e)||this.#F.has(e))return!1;this.#F.add(e),t.init&&t.init(this.#q),Object.entries(t).forEach(([i,s])=>{this.#i.
get(i)?.push(s)||this.#i.set(i,[s])})}#O(e){let t=this.config.prefix;return!e.closest||e.closest("[hx-ignore]")!=null||t&&e.closest(`[${t}ig\
nore]`)!=null}#y(e,t){let i=this.config.prefix;return e.getAttribute(t)??(i?e.getAttribute(t.replace("hx-",i)):null)}#M(e,t){let i=this.config.
prefix&&t.replace("hx-",this.config.prefix);return e.hasAttribute(t)?t:i&&e.hasAttribute(i)?i:null}#o(e){return this.#v(e).join(",")}#v(e){let t=[
e];return this.config.prefix&&t.push(e.replaceAll("hx-",this.config.prefix)),t}#h(e,t){let i=[...e.querySelectorAll?.(t)??[]];return e.matches?.(
t)&&i.unshift(e),i}#xe(e){return e==="before"?"beforebegin":e==="after"?"afterend":e==="prepend"?"afterbegin":e==="append"?"beforeend":e}#Te(e,t){
let i=[];return this.#t(e,t,void 0,(s,n)=>{s?.split(/\s*[,:]\s*/).includes("this")&&i.push(n)}),i}#t(e,t,i,s,n=this.config.implicitInheritance){
t=this.#p(t);let r=this.#p(":inherited"),a=this.#p(":append"),l=this.#y(e,t)??this.#y(e,t+r);if(l!=null)return s?s(l,e):l;let f=CSS.escape(n?
t:t+r),h=CSS.escape(t+r+a),o=this.#o(`[${f}],[${h}]`),c=this.#M(e,t+a)??this.#M(e,t+r+a);if(c){let m=e.getAttribute(c),v=e.parentNode?.closest?.(
o);if(s&&s(m,e),v){let w=this.#t(v,t,void 0,s,n);return w?(w+","+m).replace(/[{}]/g,""):m}return m}let u=e.parentNode?.closest?.(o);return u?
(l=this.#t(u,t,void 0,s),!s&&l&&n&&this.#l(e,"htmx:after:implicitInheritance",{elt:e,name:t,parent:u}),l):i}#G(e){return d.split(e).flatMap(
t=>{t=t.replace(/^\s*every\s+(\S+?)\s*(\[[^\]]*\])/,"every$2 $1");let[,i,s]=t.match(/^\s*(\S+\[[^\]]*\]|\S+)\s*(.*?)\s*$/)??[];if(!i)return[];
if(/\[[^\]]*$/.test(i))throw"unterminated:"+i;return[{name:i,...d.parse(s)}]})}#J(e,t){let i=this.#t(e,"hx-method"),s=this.#t(e,"hx-action",
void 0,void 0,!1);if(!s)for(let n of this.#we){let r=this.#t(e,"hx-"+n,void 0,void 0,!1);if(r!=null){s=r,i=n;break}}return this.#c(e)&&(s||=
t.submitter?.getAttribute?.("formAction")||e.getAttribute(e.matches("a")?"href":"action")),i||=t.submitter?.getAttribute?.("formmethod")||e.
getAttribute("method")||"GET",{action:s,method:i.toUpperCase()}}#a(e){return e._htmx||(e._htmx={listeners:[],triggerSpecs:[]},e.setAttribute(
"data-htmx-powered","true")),e._htmx}#u(e){return e._htmx_state||={}}#Ce(e){if(this.#ne(e)&&this.#e(e,"htmx:before:init",{},!0)){let t=this.#a(
e);t.initialized=!0,t.eventHandler=this.#K(e),this.#re(e),this.#e(e,"htmx:after:init",{},!0)}}#K(e){return async t=>{try{let i=this.#k(e,t);
await this.#Z(i)}catch(i){this.#e(e,"htmx:error",{error:i})}}}#k(e,t){let{action:i,method:s}=this.#J(e,t),[n,r]=(i||"").split("#"),a=new AbortController,
l={sourceElement:e,sourceEvent:t,status:"created",select:this.#t(e,"hx-select"),selectOOB:this.#t(e,"hx-select-oob"),target:this.#t(e,"hx-ta\
rget"),swap:this.#t(e,"hx-swap")??this.config.defaultSwap,push:this.#t(e,"hx-push-url"),replace:this.#t(e,"hx-replace-url"),transition:this.
config.transitions,confirm:this.#t(e,"hx-confirm"),request:{validate:this.#t(e,"hx-validate",e.matches("form")&&!e.noValidate&&!t.submitter?.
formNoValidate?"true":"false",void 0,!1)==="true",action:n,anchor:r,method:s,headers:this.#qe(e),abort:a.abort.bind(a),credentials:"same-ori\
gin",signal:a.signal,mode:this.config.mode}};e._htmx?.boosted&&d.merge(e._htmx.boosted,l),l.target=this.#H(e,l.target),l.target&&(l.request.
headers["HX-Target"]=this.#Y(l.target));let f=this.#t(e,"hx-config");return f&&(d.merge(f,l.request),l.request.mode=this.config.mode),l}#Y(e){
return`${e.tagName.toLowerCase()}${e.id?"#"+encodeURI(e.id):""}`}#qe(e){let t={"HX-Request":"true","HX-Source":this.#Y(e),"HX-Current-URL":location.
href,Accept:"text/html"};return this.#c(e)&&(t["HX-Boosted"]="true"),t}#Ae(e,t){return this.#D(e,"hx-headers",i=>{for(let s in i)t.request.headers[s]=
String(i[s])},{ctx:t})}#H(e,t){return t instanceof Element?t:t!=null?this.#$(e,t,"hx-target"):this.#c(e)?document.body:e}#c(e){return e?._htmx?.
boosted}async#Z(e){let t=e.sourceElement,i=e.sourceEvent;if(!t.isConnected||this.#He(i))return;this.#ie(i)&&i.preventDefault();let s=/GET|DELETE/.
test(e.request.method),n=s?t.matches("form")?t:null:t.form||t.closest("form"),r=this.#fe(t,n,i.submitter,e.request.validate,s);if(!r)return;
let a=this.#D(t,"hx-vals",h=>{e.vals=h;for(let o in h)r.set(o,h[o])},{ctx:e});if(a&&await a,e.values)for(let h in e.values)r.delete(h),r.append(
h,e.values[h]);let l=this.#Ae(t,e);if(l&&await l,Object.assign(e.request,{form:n,submitter:i.submitter,body:r}),!this.#e(t,"htmx:config:requ\
est",{ctx:e})||e.request.method==="DIALOG")return;let f=this.#j(e.request.action);if(f!=null){let h=Object.fromEntries(e.request.body);await this.#f(
e.sourceElement,h,f,!1);return}else if(s){let h=new URL(e.request.action,document.baseURI);for(let o of e.request.body.keys())h.searchParams.
delete(o);for(let[o,c]of e.request.body)h.searchParams.append(o,c);h.origin===location.origin?e.request.action=h.pathname+h.search:e.request.
action=h.href,e.request.body=null}else(this.#t(t,"hx-encoding")??n?.enctype)!=="multipart/form-data"&&(e.request.body=new URLSearchParams(e.
request.body));await this.#ee(e)}async#ee(e){let t=e.sourceElement,i=this.#ke(t),s=this.#te(t);this.#nt(t);let n=()=>e.request?.abort?.();if(s.
admit(i,()=>this.#ee(e),n)==="run"){e.status="issuing",e.indicators??=[],e.disabledElements??=[];try{if(e.confirm&&!await new Promise(l=>{let f={
ctx:e,issueRequest:()=>l(!0),dropRequest:()=>l(!1)};if(this.#e(t,"htmx:confirm",f)){let h=this.#j(e.confirm);l(h?this.#f(t,{ctx:e},h,!0):window.
confirm(e.confirm))}})||(this.#Me(e),this.#Ye(e),this.#et(e),e.fetch||=window.fetch.bind(window),e.request.headers["HX-Request-Type"]=e.target===
document.body||e.select?"full":"partial",!this.#e(t,"htmx:before:request",{ctx:e})))return;let r=await e.fetch(e.request.action,e.request);if(e.
response={raw:r,status:r.status,headers:r.headers},this.#Ie(e),!this.#e(t,"htmx:before:response",{ctx:e})||(e.text=await r.text(),!this.#e(t,
"htmx:after:request",{ctx:e})))return;if(e.response.status>=400&&this.#e(t,"htmx:response:error",{ctx:e}),this.#Oe(e)){e.keepIndicators=!0;return}
if(e.status==="issuing"){if(e.hx.retarget&&(e.target=e.hx.retarget),e.hx.reswap&&(e.swap=e.hx.reswap),e.hx.reselect&&(e.select=e.hx.reselect),
e.target?.isConnected===!1)return;e.status="response received",this.#ut(e),await this.swap(e),e.status="swapped"}}catch(r){e.status="error: "+
r,(r?.name!=="AbortError"||e.request.signal.reason==="timeout")&&this.#e(t,"htmx:error",{ctx:e,error:r})}finally{await e.extensionPromise?.catch(
()=>{}),clearTimeout(e.requestTimeout),e.hx?.trigger&&this.#Ne(e.hx.trigger,e.sourceElement),this.#e(t,"htmx:finally:request",{ctx:e}),e.keepIndicators||
(this.#Ze(e.indicators),this.#tt(e.disabledElements)),s.continue(n)}}}#Ie(e){e.hx={};for(let[t,i]of e.response.raw.headers)t.toLowerCase().startsWith(
"hx-")&&(e.hx[t.slice(3).toLowerCase().replace(/-/g,"")]=i)}#Oe(e){if(e.hx.refresh==="true")return this._loc.reload(),!0;if(e.hx.redirect)return this.
_loc.href=e.hx.redirect,!0;if(e.hx.location){let t=e.hx.location,i={},s=d.parse(t);return(t[0]==="{"||s.path!=null)&&(i=s,t=i.path,delete i.
path),i.push==null&&i.replace==null&&(i.push="true"),i.indicators=e.indicators,i.disabledElements=e.disabledElements,this.ajax("GET",t,i),!0}}#Me(e){
let t=e.request.timeout!=null?this.parseInterval(e.request.timeout):this.config.defaultTimeout;t&&(e.requestTimeout=setTimeout(()=>e.request?.
abort?.("timeout"),t))}#ke(e){let t=this.#t(e,"hx-sync");if(!t)return"queue first";let i=t.split(":").pop().trim();return/^(drop|abort|replace|queue)/.
test(i)?i:"queue first"}#te(e){let t=this.#t(e,"hx-sync"),i=e;if(t){let s=t.includes(":")?t.slice(0,t.lastIndexOf(":")).trim():/^(drop|abort|replace|queue)/.
test(t)?null:t;s&&(i=this.#$(e,s,"hx-sync")||e)}return this.#u(i).rq||=new S}#He(e){return e.type==="click"&&(e.ctrlKey||e.metaKey||e.shiftKey)&&
!!e.currentTarget?.closest?.("a[href]")}#ie(e){let t=e.currentTarget;if(e.type==="submit"&&t?.tagName==="FORM")return!0;if(!(e.type==="click"&&
e.button===0))return!1;let n=t?.closest?.('button, input[type="submit"], input[type="image"]'),r=n?.form||n?.closest("form");if(n&&!n.disabled&&
r&&(n.type==="submit"||n.type==="image"||!n.type&&n.tagName==="BUTTON"))return!0;let l=t?.closest?.("a");if(!l||!l.href)return!1;let f=l.getAttribute(
"href");return!(f&&f.startsWith("#")&&f.length>1)}#re(e,t=e._htmx.eventHandler){let s=this.#t(e,"hx-trigger",void 0,void 0,!1)||(e.matches("\
form")?"submit":e.matches("input:not([type=button]):not([type=submit]),select,textarea")?"change":"click");this.#w(e,s,t)}#w(e,t,i){let s=this.#G(
t);this.#a(e).triggerSpecs.push(...s);for(let n of s){n.listeners=[];let[r,a]=this.#Le(n.name),l=[e];n.from==="outside"?l=[document]:n.from&&
n.from!=="self"&&(l=this.#s(e,n.from));let f=o=>{if((n.halt||n.prevent)&&o.preventDefault(),(n.halt||n.stop||n.consume)&&o.stopPropagation(),
n.changed){let c=this.#u(e).changedValues??=new WeakMap,u=o.target;if(!["checkbox","radio"].includes(u?.type)){let m=u?.value;if(c.has(u)&&c.
get(u)===m)return;c.set(u,m)}}if(n.once)for(let c of n.listeners)c.fromElt.removeEventListener(c.eventName,c.handler,c);i(o)},h=f;if(n.delay?
h=o=>{clearTimeout(n.timeout),n.timeout=setTimeout(()=>f(o),this.parseInterval(n.delay))}:n.throttle&&(h=o=>{n.throttled?n.throttledEvent=o:
(n.throttled=!0,f(o),n.throttleTimeout=setTimeout(()=>{if(n.throttled=!1,n.throttledEvent){let c=n.throttledEvent;n.throttledEvent=null,h(c)}},
this.parseInterval(n.throttle)))}),n.handler=o=>{if(this.#ie(o)&&o.preventDefault(),!(n.from==="self"&&o.target!==e)&&!(n.from==="outside"&&
e.contains(o.target))&&!(n.target&&!o.target?.matches?.(n.target))){if(a){let c={};for(let u in o)/^[a-z]+$/i.test(u)&&(c[u]=o[u]);if(!this.#f(
e,c,a,!0,!1))return}if(r!=="every")for(let c of this.#a(e).triggerSpecs)clearTimeout(c.timeout),c.throttledEvent=null;h(o)}},r==="intersect"||
r==="revealed"){let o={rootMargin:n.rootMargin};n.root&&(o.root=this.#$(e,n.root)),n.threshold&&(o.threshold=parseFloat(n.threshold));let c=r===
"revealed";n.observer=new IntersectionObserver(u=>{for(let m=0;m<u.length;m++)if(u[m].isIntersecting){this.trigger(u[m].target,"intersect",{},
!1),c&&n.observer.disconnect();break}},o),r="intersect";for(let u of l)n.observer.observe(u)}if(r==="every"){let o=Object.keys(n).find(c=>c!==
"name");n.interval=setInterval(()=>{e.isConnected?this.#e(e,"every",{},!1):clearInterval(n.interval)},this.parseInterval(o))}if(r==="load"){
n.handler(new CustomEvent("load"));continue}for(let o of l){let c={fromElt:o,eventName:r,handler:n.handler,capture:!!n.capture,passive:!!n.passive};
e._htmx.listeners.push(c),n.listeners.push(c),o.addEventListener(r,n.handler,c)}}}#Le(e){let t=e.match(/^([^\[]*)\[([^\]]*)]/);return t?[t[1],
t[2]]:[e,null]}#Ne(e,t){if(e[0]==="{"){let i=d.parse(e);for(let s in i){let n=i[s],r=t;n?.target&&(r=this.find(n.target)),this.trigger(r,s,typeof n==
"object"?n:{value:n})}}else e.split(",").forEach(i=>this.trigger(t,i.trim(),{}))}#De(e){let t={},i=Object.getPrototypeOf(this);for(let s of Object.
getOwnPropertyNames(i))s!=="constructor"&&typeof this[s]=="function"&&(["find","findAll"].includes(s)?t[s]=(n,r)=>r===void 0?this[s](e,n):this[s](
n,r):t[s]=this[s].bind(this));return t}#f(e,t,i,s=!0,n=!0,r=!1){let a={};Object.assign(a,this.#De(e));let l={},f={scope:l,code:i};this.#l(e,
"htmx:scope",f),i=f.code,Object.assign(a,l),Object.assign(a,t);let h=Object.keys(a),o=Object.values(a),c=n?this.#z:this.#U,u=new c(...h,s?`r\
eturn (${i})`:i);return r?()=>u.call(e,...o):u.call(e,...o)}process(e,t){if(!e?.isConnected)return;if(!(e instanceof Element)){for(let r of e.
children||[])this.process(r,t);return}if(t&&this.#r(e,!0),this.#O(e)||!this.#e(e,"htmx:before:process"))return;let i=[e],s=this.#Q.evaluate(
e),n=null;for(;n=s.iterateNext();)i.push(n);for(let r of i)!this.#O(r)&&this.#e(r,"htmx:before:on:init",{},!0)&&this.#Ke(r);for(let r of this.#h(
e,this.#P))this.#Ce(r);for(let r of this.#h(e,this.#ve))this.#_e(r);this.#e(e,"htmx:after:process")}#_e(e){let t=this.#t(e,"hx-boost");if(t&&
t!=="false"&&this.#$e(e)&&this.#e(e,"htmx:before:init",{},!0)){let i=this.#a(e);i.initialized=!0,i.eventHandler=this.#K(e),i.boosted=t,this.#re(
e),this.#e(e,"htmx:after:init",{},!0)}}#$e(e){if(this.#ne(e)){if(e.tagName==="A"){if(e.target===""||e.target==="_self")return!e.hasAttribute(
"download")&&!e.getAttribute("href")?.startsWith?.("#")&&this.#se(e.href)}else if(e.tagName==="FORM")return e.method!=="dialog"&&this.#se(e.
action)}}#se(e){try{return new URL(e,window.location.href).origin===window.location.origin}catch{return!1}}#ne(e){return!e._htmx?.initialized&&
!this.#O(e)}#r(e,t){let i=[e,...e.querySelectorAll?.("[data-htmx-powered]")??[]];for(let s of i)if(s._htmx){this.#e(s,"htmx:before:cleanup");
for(let n of s._htmx.triggerSpecs||[])n.interval&&clearInterval(n.interval),n.timeout&&clearTimeout(n.timeout),n.throttleTimeout&&clearTimeout(
n.throttleTimeout),n.observer?.disconnect();for(let n of s._htmx.listeners||[])n.fromElt.removeEventListener(n.eventName,n.handler,n);s.removeAttribute(
"data-htmx-powered"),this.#e(s,"htmx:after:cleanup"),t&&delete s._htmx}}#Re(e){let t=document.createElement("div");t.hidden=!0,document.body.
insertAdjacentElement("afterend",t);let i=e.querySelectorAll?.(this.#o("[hx-preserve]"))||[];for(let s of i){let n=document.getElementById(s.
id);n&&this.#m(t,n,null)}return t}#je(e){for(let t of[...e.children]){let i=document.getElementById(t.id);i&&(this.#m(i.parentNode,t,i),this.#r(
i),i.remove())}e.remove()}#L(e){let t=this.#A.createHTML(e);return Document.parseHTMLUnsafe?.(t,{})||new DOMParser().parseFromString(t,"text\
/html")}#Be(e){let t=e.replace(/<hx-([a-z]+)(\s+|>)/gi,'<template hx type="$1"$2').replace(/<\/hx-[a-z]+>/gi,"</template>"),i="";t=t.replace(
/<head(\s[^>]*)?>[\s\S]*?<\/head>/i,a=>(i=this.#L(a).title,""));let s=t.match(/<([a-z][^\/>\x20\t\r\n\f]*)/i)?.[1]?.toLowerCase(),n,r;if(s===
"html"||s==="body"?(n=this.#L(t),r=document.createDocumentFragment(),r.append(n.body)):(n=this.#L(`<template>${t}</template>`),r=n.querySelector(
"template").content),!i){let a=r.querySelector("title:not(svg title)");a&&(i=a.textContent,a.remove())}return this.#he(r),{fragment:r,title:i}}#ae(e,t,i,s){
let n=t.id?"#"+CSS.escape(t.id):null,[,r,a]=i.match(/^(\S+):(.+)/)??[];r&&([i,n]=[r,a||n]),(i==="true"||!i)&&(i="outerHTML");let l=this.#E(i);
if(n=l.target||n,l.strip??=!l.style.startsWith("outer"),!n)return;let f=this.#s(s,n);for(let h of f){let o=document.createDocumentFragment();
o.append(t.cloneNode(!0)),e.push({type:"oob",fragment:o,target:h,swapSpec:l,sourceElement:s})}t.remove()}#Ve(e,t,i){let s=[];if(i)for(let n of i.
split(",")){let[r,a="true"]=n.split(/:(.*)/);for(let l of e.querySelectorAll(r))this.#ae(s,l,a,t)}for(let n of e.querySelectorAll(this.#o("[\
hx-swap-oob]"))){let r=this.#M(n,"hx-swap-oob"),a=n.getAttribute(r);n.removeAttribute(r),this.#ae(s,n,a,t)}return s}#d(e,t,i){t?t.before(...i.
childNodes):e.append(...i.childNodes)}#E(e){e=e.trim();let t=this.config.defaultSwap;if(e&&!/^\S*:/.test(e)){let i=e.match(/^(\S+)\s*(.*)$/);
t=i[1],e=i[2]}return{style:this.#xe(t),...d.parse(e)}}#We(e,t){let i=[];for(let s of e.querySelectorAll("template[hx]")){let n=s.getAttribute(
"type");if(n==="partial"){let r=this.#y(s,"hx-target")||(s.id?"#"+CSS.escape(s.id):null);if(r){this.#he(s.content);let a=this.#E(this.#y(s,"\
hx-swap")||this.config.defaultSwap);a.ignoreTitle&&(t.title=null);let l=this.#s(t.sourceElement,r);for(let f of l.length?l:[null])i.push({type:"\
partial",fragment:s.content.cloneNode(!0),target:f,swapSpec:a,sourceElement:t.sourceElement})}}else this.#l(s,"htmx:process:"+n,{ctx:t,tasks:i});
s.remove()}return i}#le(e,t,i,s){try{i!=null&&e.setSelectionRange&&e.setSelectionRange(i,s),e.focus(t)}catch{}}#Fe(e){let t=this.#h(e,"[auto\
focus]")[0];t&&this.#le(t)}#oe(e){return e===window||e===document?document.scrollingElement:e}#Ue(e,t){if(e.scroll){let i=e.scrollTarget?this.#oe(
this.#R(t,e.scrollTarget)):t;i&&(e.scroll==="top"?i.scrollTop=0:e.scroll==="bottom"&&(i.scrollTop=i.scrollHeight))}(e.show==="top"||e.show===
"bottom")&&(e.showTarget?this.#oe(this.#R(t,e.showTarget)):t)?.scrollIntoView?.(e.show==="top")}#ze(e){e.request?.anchor&&document.getElementById(
e.request.anchor)?.scrollIntoView({block:"start",behavior:"auto"})}#he(e){let t=this.#h(e,"script");for(let i of t){let s=document.createElement(
"script");for(let n of i.attributes)s.setAttribute(n.name,n.value);this.config.inlineScriptNonce&&(s.nonce=this.config.inlineScriptNonce),s.
textContent=this.#A.createScript(i.textContent),i.replaceWith(s)}}initialize(){this.config.history&&!this.#X&&(this.#X=!0,window.navigation&&
!/firefox/i.test(navigator.userAgent)?navigation.addEventListener("navigate",e=>{e.navigationType==="traverse"&&e.canIntercept&&!e.hashChange&&
e.intercept({handler:()=>this.#ue()})}):window.addEventListener("popstate",e=>this.#ue(e.state))),this.process(document.body)}async swap(e){
try{let{fragment:t,title:i}=this.#Be(e.text);e.title=i;let s=[],n=this.#Ve(t,e.sourceElement,e.selectOOB),r=this.#We(t,e);s.push(...n,...r);
let a=r.length||n.length&&!this.config.allowEmptySwapAfterOOB,l=this.#Pe(e,t,a);if(l&&s.unshift(l),!this.#e(e.sourceElement,"htmx:before:swa\
p",{ctx:e,tasks:s}))return;this.#Je(e);let f=[],h=[];for(let o of s)o.swapSpec?.transition??l?.transition??e.transition?h.push(o):f.push(this.#N(
o));if(h.length>0){let o=async()=>{for(let c of h)await this.#N(c,!1)};f.push(this.#ft(o,e))}await Promise.all(f),!e.sourceElement?.isConnected&&
l?.target?.isConnected&&(e.sourceElement=l.target),this.#e(e.sourceElement,"htmx:after:swap",{ctx:e}),e.title&&e.swap!=="none"&&(document.title=
e.title),this.#ze(e)}finally{this.#e(e.sourceElement,"htmx:finally:swap",{ctx:e})}}#Pe(e,t,i){let s=this.#E(e.swap||this.config.defaultSwap);
if(s.ignoreTitle&&(e.title=null),s.style==="delete"||(t.querySelector("body")||t).childElementCount>0||t.textContent.trim()||(s.swapEmpty??!i)){
if(e.select){let r=t.querySelectorAll(e.select);t=document.createDocumentFragment(),t.append(...r)}return this.#c(e.sourceElement)&&(s.show||=
"top"),{type:"main",fragment:t,target:this.#H(e.sourceElement||document.body,s.target||e.target),swapSpec:s,sourceElement:e.sourceElement,transition:e.
transition&&s.transition!==!1}}}async#N(e,t=!0){let{target:i,swapSpec:s,fragment:n}=e;if(typeof i=="string"&&(i=document.querySelector(i)),!i)
return;typeof s=="string"&&(s=this.#E(s));let r=s.style;if(r==="none")return;if(n.firstElementChild?.tagName==="BODY"){let u=i===document.body&&
r.startsWith("outer");u&&r==="outerHTML"&&(r="outerSync"),s.strip??=!u}if(s.strip&&n.firstElementChild&&(n=document.createDocumentFragment(),
n.append(...(e.fragment.firstElementChild.content||e.fragment.firstElementChild).childNodes)),this.#S(i,"htmx-swapping"),t&&e.swapSpec?.swap&&
await this.timeout(e.swapSpec?.swap),r==="delete"){i.parentNode&&(this.#r(i),i.parentNode.removeChild(i));return}let a,l=[],f=s.settle??this.
config.defaultSettleDelay,h=i.parentNode;if(r==="innerHTML"||r==="outerHTML"&&h){let u=document.activeElement;if(u?.id){let m,v;try{m=u.selectionStart,
v=u.selectionEnd}catch{}a={elt:u,start:m,end:v}}l=t&&f?this.#ct(n,i):[]}let o=this.#Re(n),c=[...n.childNodes];try{if(r==="innerHTML"){for(let u of i.
children)this.#r(u);i.replaceChildren(...n.childNodes)}else if(r==="textContent"){for(let u of i.querySelectorAll("[data-htmx-powered]"))this.#r(
u);i.textContent=n.textContent}else if(r==="outerHTML")h&&(this.#d(h,i,n),this.#r(i),h.removeChild(i),i=c.find(u=>u.nodeType===1)||h);else if(r===
"outerSync"){this.#W(i,n.firstElementChild);for(let u of i.children)this.#r(u);i.replaceChildren(...n.firstElementChild.childNodes),c=[i]}else if(r===
"innerMorph")this.#B(i,n,!0),c=[...i.childNodes];else if(r==="outerMorph")this.#B(i,n,!1),c.push(i);else if(r==="beforebegin")h&&this.#d(h,i,
n);else if(r==="afterbegin")this.#d(i,i.firstChild,n);else if(r==="beforeend")this.#d(i,null,n);else if(r==="afterend")h&&this.#d(h,i.nextSibling,
n);else{let u=this.#i.get("handle_swap")||[],m=!1;for(let v of u){let w=v(r,i,n,s);if(w){m=!0,Array.isArray(w)&&(c=w);break}}if(!m)throw new Error(
`Unknown swap style: ${r}`)}}finally{this.#x(i,"htmx-swapping")}if(e.target=i,this.#je(o),a&&!a.elt.matches(":focus")){let u=document.getElementById(
a.elt.id);if(u){let m={preventScroll:s.focusScroll!==void 0?!s.focusScroll:!this.config.defaultFocusScroll};this.#le(u,m,a.start,a.end)}}this.#e(
i,"htmx:before:settle",{task:e,newContent:c,settleTasks:l});for(let u of c)this.#S(u,"htmx-added");if(t&&l.length>0){this.#S(i,"htmx-settlin\
g"),await this.timeout(f);for(let u of l)u();this.#x(i,"htmx-settling")}this.#e(i,"htmx:after:settle",{task:e,newContent:c,settleTasks:l});for(let u of c)
this.#x(u,"htmx-added"),this.process(u),this.#Fe(u);this.#Ue(s,i)}#e(e,t,i={},s=!0){if(i.error){let n=`htmx: ${t}: ${i.error.message??i.error}`;
i.error instanceof Error?console.error(n,i.error,{elt:e,detail:i}):console.error(n,{elt:e,detail:i})}else i.warn?console.warn(`htmx: ${t}: ${i.
warn}`,{elt:e,detail:i}):this.config.logAll&&console.log(`htmx: ${t}`,{elt:e,detail:i});return e=this.#T(e),this.#l(e,t,i),this.trigger(e,this.#p(
t),i,s)}#l(e,t,i={}){let s=this.#i.get(t.replace(/:/g,"_"));if(s){i.cancelled=!1;for(let n of s)if(n(e,i)===!1||i.cancelled)return i.cancelled=
!0,!1}return!0}timeout(e){if(e=this.parseInterval(e),e>0)return new Promise(t=>setTimeout(t,e))}onLoad(e){this.on(this.#p("htmx:after:proces\
s"),t=>{e(t.target)})}on(e,t,i){let s,n=document;return i===void 0?(s=e,i=t):(n=this.#T(e),s=t),n.addEventListener(s,i),i}find(e,t){return this.#R(
e,t)}findAll(e,t){return this.#s(e,t)}parseInterval(e){if(typeof e=="number")return e;let t={ms:1,s:1e3,m:6e4},[,i,s]=e?.match(/^([\d.]+)(ms|s|m)?$/)||
[],n=parseFloat(i)*(t[s]||1);return isNaN(n)?void 0:n}trigger(e,t,i={},s=!0){e=this.#T(e);let n=new CustomEvent(t,{detail:i,cancelable:!0,bubbles:s,
composed:!0}),r=e?.isConnected?e:document;return!i?.cancelled&&r.dispatchEvent(n)}ajax(e,t,i){(!i||i instanceof Element||typeof i=="string")&&
(i={target:i});let s=typeof i.source=="string"?document.querySelector(i.source):i.source;if(typeof i.source=="string"&&!s)return Promise.reject(
new Error("Source not found"));s||=document.body;let n=this.#k(s,i.event||{});return Object.assign(n,i),i.target&&(n.target=this.#H(document.
body,i.target),!n.target)?Promise.reject(new Error("Target not found")):(Object.assign(n.request,{action:t,method:e.toUpperCase()}),i.headers&&
Object.assign(n.request.headers,i.headers),this.#Z(n))}#Qe(e){this.config.history&&(history.pushState({htmx:!0},"",e),this.#e(document,"htmx\
:after:history:push",{path:e}))}#Xe(e){this.config.history&&(history.replaceState({htmx:!0},"",e),this.#e(document,"htmx:after:history:repla\
ce",{path:e}))}async#ue(e,t){if(await this.timeout(1),e??=history.state,!e?.htmx)return;this.#I?.abort(),t=t||location.pathname+location.search;
let i=document.querySelector(this.#o("[hx-history-elt]"))||document.body;if(this.#e(document,"htmx:before:history:restore",{path:t,cacheMiss:!0}))
if(this.config.history==="reload")this._loc.reload();else return this.#I=new AbortController,this.ajax("GET",t,{target:i,swap:"outerSync",select:i!==
document.body?this.#o("[hx-history-elt]"):void 0,request:{headers:{"HX-History-Restore-Request":"true"},signal:this.#I.signal}})}#Ge(e){let{
sourceElement:t,push:i,replace:s,hx:n,response:r}=e;if((n?.pushurl||n?.replaceurl)&&(i=n.pushurl,s=n.replaceurl),i==null&&s==null&&this.#c(t)&&
(i="true"),(i==="false"||i===!1)&&(i=null),(s==="false"||s===!1)&&(s=null),!i&&!s)return null;let a=i||s;if(a==="true"){let f=r?.raw?.url||e.
request.action,h=new URL(f,location.href);a=h.pathname+h.search+(e.request.anchor?"#"+e.request.anchor:"")}return{type:i?"push":"replace",path:a}}#Je(e){
if(!this.config.history)return;history.state?.htmx||history.replaceState({htmx:!0},"",location.href);let t=this.#Ge(e);if(!t)return;let i={history:t,
sourceElement:e.sourceElement,response:e.response};this.#e(document,"htmx:before:history:update",i)&&(t.type==="push"?this.#Qe(t.path):this.#Xe(
t.path),this.#e(document,"htmx:after:history:update",i))}#Ke(e){if(e._htmx?.onInitialized)return;let t=this.#v("hx-on"),i=this.config.metaCharacter||
":",s=n=>async r=>{try{await this.#f(e,{event:r},`with(event?.detail||{}){${n}}`,!1)}catch(a){typeof a!="symbol"&&this.#e(e,"htmx:error",{error:a})}};
for(let n of e.getAttributeNames()){let r=t.find(h=>n.startsWith(h));if(!r)continue;this.#a(e).onInitialized=!0;let a=n.substring(r.length),
l=e.getAttribute(n);if(!a){for(let h of l.split(/;(?=[^;]*->)/)){let o=h.indexOf("->");o!==-1&&this.#w(e,h.substring(0,o).trim(),s(h.substring(
o+2).trim()))}continue}if(a[0]!==i)continue;let f=a.substring(1);f.startsWith(i)&&(f="htmx"+i+f.substring(1)),this.#w(e,f,s(l))}}#Ye(e){let t=e.
sourceElement,i=this.#t(t,"hx-indicator"),s;if(i)s=this.#s(t,i,"hx-indicator");else{if(t===document.body)return;s=[t]}for(let n of s){e.indicators.
push(n);let r=this.#u(n);r.rc=(r.rc||0)+1,this.#S(n,this.config.requestClass)}}#Ze(e){for(let t of e){let i=this.#u(t);i.rc&&--i.rc<=0&&(this.#x(
t,this.config.requestClass),delete i.rc)}}#et(e){let t=e.sourceElement,i=this.#t(t,"hx-disable");if(i)for(let s of this.#s(t,i,"hx-disable")){
e.disabledElements.push(s);let n=this.#u(s);n.dc=(n.dc||0)+1,s.disabled=!0}}#tt(e){for(let t of e){let i=this.#u(t);i.dc&&--i.dc<=0&&(t.disabled=
!1,delete i.dc)}}#fe(e,t,i,s,n){if(s&&t&&!t.reportValidity())return;i??=t&&e.type==="submit"?e:null;let r=t?new FormData(t):new FormData,a=t?
new Set(t.elements):new Set;if(!t){if(s&&e.reportValidity&&!e.reportValidity())return;this.#ce(e,a,r,n)}i?.name&&(r.append(i.name,i.value),a.
add(i));let l=this.#t(e,"hx-include");if(l)for(let f of this.#s(e,l)){if(s&&f.reportValidity&&!f.reportValidity())return;this.#ce(f,a,r)}return r}#ce(e,t,i,s){
let n=e.tagName,r=[];n==="BUTTON"||n.includes("-")?r=[e]:(["INPUT","SELECT","TEXTAREA","FIELDSET"].includes(n)||!s&&e!==document.body)&&(r=this.#h(
e,"[name]:not(button)"));for(let a of r){let l=a.name||a.getAttribute?.("name");if(!l||a.matches(":disabled")||t.has(a))continue;t.add(a);let f=a.
type;if(f==="checkbox"||f==="radio"||a.tagName!=="INPUT"&&"checked"in a)a.checked&&i.append(l,a.value);else if(f==="file")for(let h of a.files)
i.append(l,h);else if(f==="select-multiple")for(let h of a.selectedOptions)i.append(l,h.value);else if(Array.isArray(a.value))for(let h of a.
value)i.append(l,h);else i.append(l,a.value)}}#D(e,t,i,s={}){let n=this.#t(e,t);if(!n)return null;let r=this.#j(n);if(r)return r.indexOf("{")!==
0&&(r="{"+r+"}"),this.#f(e,s,r,!0).then(a=>{i(a)});i(d.parse(n))}#it(e){let t=e.trim();return t.startsWith("<")&&t.endsWith("/>")?t.slice(1,
-2):t}#s(e,t,i,s){let n=t??e,r=t?this.#T(e)||document.body:document;if(n.startsWith("global "))return this.#s(r,n.slice(7),i,!0);let a=n?d.split(
n):[],l=[],f=[];for(let h of a){let o=this.#it(h),c;if(o.startsWith("closest "))c=r.closest(o.slice(8));else if(o.startsWith("find "))c=r.querySelector(
o.slice(5));else if(o.startsWith("findAll "))l.push(...r.querySelectorAll(o.slice(8)));else if(o==="next"||o==="nextElementSibling")c=r.nextElementSibling;else if(o.
startsWith("next "))c=this.#rt(r,o.slice(5),!!s);else if(o==="previous"||o==="previousElementSibling")c=r.previousElementSibling;else if(o.startsWith(
"previous "))c=this.#st(r,o.slice(9),!!s);else if(o==="document")c=document;else if(o==="window")c=window;else if(o==="body")c=document.body;else if(o===
"host")c=r.getRootNode().host;else if(o==="this"){if(i){l.push(...this.#Te(r,i));continue}c=r}else f.push(o);c&&l.push(c)}if(f.length>0){let h=f.
join(","),o=this.#_(r,!!s);l.push(...o.querySelectorAll(h))}return[...new Set(l)]}#rt(e,t,i){return this.#de(this.#_(e,i).querySelectorAll(t),
e,Node.DOCUMENT_POSITION_PRECEDING)}#st(e,t,i){let s=[...this.#_(e,i).querySelectorAll(t)].reverse();return this.#de(s,e,Node.DOCUMENT_POSITION_FOLLOWING)}#de(e,t,i){
for(let s of e)if(s.compareDocumentPosition(t)===i)return s}#_(e,t){return e.isConnected&&e.getRootNode?e.getRootNode?.({composed:t}):document}#$(e,t,i){
let s=this.#s(e,t,i)[0];return s||console.warn(`htmx: '${t}' on ${i} did not match any element`,{elt:e,selector:t,attr:i}),s}#R(e,t,i){return this.#s(
e,t,i)[0]}#j(e){if(e!=null){if(e.startsWith("js:"))return e.substring(3);if(e.startsWith("javascript:"))return e.substring(11)}}#nt(e){let t=this.#a(
e);if(t.abortInitialized)return;t.abortInitialized=!0;let i=()=>{this.#te(e).abort()};e.addEventListener("htmx:abort",i),t.listeners.push({fromElt:e,
eventName:"htmx:abort",handler:i})}#B(e,t,i){let{persistentIds:s,idMap:n}=this.#ot(e,t),r=document.createElement("div");r.hidden=!0,document.
body.after(r);let a={target:e,idMap:n,persistentIds:s,pantry:r,futureMatches:new WeakSet};i?this.#V(a,e,t):this.#V(a,e.parentNode,t,e,e.nextSibling),
this.#r(r),r.remove()}#V(e,t,i,s=null,n=null){t instanceof HTMLTemplateElement&&i instanceof HTMLTemplateElement&&(t=t.content,i=i.content),
s||=t.firstChild;let r=i.firstChild;for(;r;){let a;if(s&&s!=n&&(a=this.#at(e,r,s,n),a&&a!==s)){let f=s;for(;f&&f!==a;){let h=f;f=f.nextSibling,
h instanceof Element&&(e.idMap.has(h)||this.#me(e,h,r))?this.#m(t,h,n):this.#pe(e,h)}}if(!a&&r instanceof Element&&e.persistentIds.has(r.id)){
let f=CSS.escape(r.id);a=e.target.id===r.id&&e.target||e.target.querySelector(`[id="${f}"]`)||e.pantry.querySelector(`[id="${f}"]`);let h=a;
for(;h=h.parentNode;){let o=e.idMap.get(h);o&&(o.delete(a.id),o.size||e.idMap.delete(h))}this.#m(t,a,s)}if(a){this.#ge(a,r,e),s=a.nextSibling,
r=r.nextSibling;continue}let l=r.nextSibling;if(e.idMap.has(r)){let f=document.createElement(r.tagName);t.insertBefore(f,s),this.#ge(f,r,e),
this.process(f),s=f.nextSibling}else t.insertBefore(r,s),s=r.nextSibling;r=l}for(;s&&s!=n;){let a=s;s=s.nextSibling,this.#pe(e,a)}}#me(e,t,i){
if(e.futureMatches.has(t))return!0;for(let s=i.nextSibling,n=0;s&&n<this.config.morphScanLimit;s=s.nextSibling,n++)if(s instanceof Element&&
t.isEqualNode(s))return e.futureMatches.add(t),!0;return!1}#at(e,t,i,s){if(t.nodeType===3)return i?.nodeType===3?i:null;if(!(t instanceof Element))
return null;let n=null,r=0,a=this.config.morphScanLimit,l=e.idMap.get(t),f=l?.size||0;if(t.id&&!l)return null;let h=i;for(;h&&h!=s;){let o=e.
idMap.get(h);if(this.#q.isSoftMatch(h,t)){if(o&&l&&[...o].some(c=>l.has(c)))return h;if(!o){if(a>0&&h.isEqualNode(t))return h;n||(n=h)}}if(r+=
o?.size||0,r>f||document.activeElement?.selectionStart!=null&&h.contains(document.activeElement)||--a<1&&f===0)break;h=h.nextSibling}return n&&
this.#me(e,n,t)?null:n}#lt(e,t){return!(e instanceof Element)||e.tagName!==t.tagName||e.tagName==="SCRIPT"&&!e.isEqualNode(t)?!1:!e.id||e.id===
t.id}#pe(e,t){e.idMap.has(t)?this.#m(e.pantry,t,null):(this.#r(t),t.remove())}#m(e,t,i){if(e.moveBefore)try{e.moveBefore(t,i);return}catch{}
e.insertBefore(t,i)}#ge(e,t,i){if(e.nodeType===3){e.nodeValue!==t.nodeValue&&(e.nodeValue=t.nodeValue);return}if(this.config.morphSkip&&e.matches?.(
this.config.morphSkip)||!this.#l(e,"htmx:before:morph:node",{oldNode:e,newNode:t}))return;this.#W(e,t),e instanceof HTMLTextAreaElement&&document.
activeElement!==e&&e.defaultValue!=t.defaultValue&&(e.value=t.value),!(this.config.morphSkipChildren&&e.matches?.(this.config.morphSkipChildren))&&
(!e.isEqualNode(t)||t.tagName==="TEMPLATE"||t.querySelector?.("template"))&&this.#V(i,e,t)}#W(e,t){let i=this.config.morphIgnore||[],s=!1,n=r=>this.#v(
"hx-").some(a=>r.startsWith(a));for(let r of t.attributes)if(!i.some(a=>r.name.startsWith(a))&&e.getAttribute(r.name)!==r.value){if(n(r.name)&&
(s=!0),!this.#l(e,"htmx:before:morph:attr",{attrName:r.name,newValue:r.value}))continue;e.setAttribute(r.name,r.value),r.name==="value"&&e instanceof
HTMLInputElement&&e.type!=="file"&&document.activeElement!==e&&(e.value=r.value)}for(let r=e.attributes.length-1;r>=0;r--){let a=e.attributes[r];
if(a&&!t.hasAttribute(a.name)&&!i.some(l=>a.name.startsWith(l))){if(n(a.name)&&(s=!0),!this.#l(e,"htmx:before:morph:attr",{attrName:a.name,newValue:null}))
continue;e.removeAttribute(a.name)}}s&&this.#r(e,!0)}#be(e,t,i,s){for(let n of s)if(t.has(n.id)){let r=n;for(;r&&r!==i;){let a=e.get(r);a==null&&
(a=new Set,e.set(r,a)),a.add(n.id),r=r.parentElement}}}#ot(e,t){let i=this.#h(e,"[id]"),s=t.querySelectorAll("[id]"),n=this.#ht(i,s),r=new Map;
return this.#be(r,n,e.parentElement,i),this.#be(r,n,t,s),{persistentIds:n,idMap:r}}#ht(e,t){let i=new Set,s=new Map;for(let{id:r,tagName:a}of e)
s.has(r)?i.add(r):r&&s.set(r,a);let n=new Set;for(let{id:r,tagName:a}of t)n.has(r)?i.add(r):s.get(r)===a&&n.add(r);for(let r of i)n.delete(r);
return n}#ut(e){let t=e.response.raw.status,i=this.config.noSwap.map(n=>n+""),s=t+"";for(let n of[s,s.slice(0,2)+"x",s[0]+"xx"]){if(i.includes(
n)){e.swap="none";return}let r=this.#t(e.sourceElement,"hx-status:"+n);if(r){d.merge(r,e);return}}}#ft(e,t){return new Promise(i=>{this.#g||=
[],this.#g.push({task:e,resolve:i,ctx:t}),this.#b||this.#ye()})}async#ye(){if(this.#g.length===0||this.#b)return;this.#b=!0;let{task:e,resolve:t,
ctx:i}=this.#g.shift();try{if(document.startViewTransition){let s={task:e,ctx:i};this.#e(i.sourceElement,"htmx:before:viewTransition",s),await document.
startViewTransition(s.task).finished,this.#e(i.sourceElement,"htmx:after:viewTransition",s)}else await e()}catch{}finally{this.#b=!1,t(),this.#ye()}}#ct(e,t){
let i=["class","style","width","height"],s=t.querySelectorAll("[id]"),n=Object.fromEntries([...s].map(l=>[l.id,l])),r=e.querySelectorAll("[i\
d]"),a=[];for(let l of r){let f=n[l.id];if(f?.tagName===l.tagName){let h=l.cloneNode(!1);for(let o of i)f.hasAttribute(o)?l.setAttribute(o,f.
getAttribute(o)):l.removeAttribute(o);a.push(()=>{this.#W(l,h)})}}return a}#S(e,t){e?.classList?.add?.(t)}#x(e,t){e?.classList?.remove?.(t),
e?.classList?.length===0&&e.removeAttribute("class")}#T(e){return typeof e=="string"?this.find(e):e}#p(e){return this.config.metaCharacter?e.
replace(/:/g,this.config.metaCharacter):e}}return new C})();typeof window<"u"&&(window.htmx=k);(()=>{let d,S=new Set;function C(r){let a=d.attributeValue(r,"hx-sse:connect")!=null,l=d.HCON.parse(d.attributeValue(r,"hx-config")).sse||{};
return{reconnect:a,reconnectDelay:500,reconnectMaxDelay:6e4,reconnectMaxAttempts:1/0,reconnectJitter:.3,connectTimeout:htmx.config.defaultTimeout,
pauseOnBackground:a,releaseOn:a?"immediate":"end",...htmx.config.sse,...l}}function p(r){for(let a of Object.keys(r))a.toLowerCase()==="last\
-event-id"&&delete r[a]}async function*e(r){let a=r.reader,l=r.lastEventId,f=new TextDecoder,h="",o=!1,c=!1,u={data:"",event:"",retry:null},
m=!0;try{for(;;){let{done:v,value:w}=await a.read();if(v)break;let x=f.decode(w,{stream:!0});m&&(x.charCodeAt(0)===65279&&(x=x.slice(1)),m=!1),
h+=x;let g=h.split(/\r\n|\r|\n/);h=g.pop()||"";for(let T of g){if(!T){(o||c||u.event)&&(yield{...u,id:l,hasData:o,hasId:c}),o=!1,c=!1,u={data:"",
event:"",retry:null};continue}let b=T.indexOf(":");if(b===0)continue;let E,y;if(b<0?(E=T,y=""):(E=T.slice(0,b),y=T.slice(b+1),y[0]===" "&&(y=
y.slice(1))),E==="data")u.data+=(o?`
`:"")+y,o=!0;else if(E==="event")u.event=y;else if(E==="id")y.includes("\0")||(l=y,c=!0);else if(E==="retry"){let A=parseInt(y,10);isNaN(A)||
(u.retry=A)}}}}finally{a.releaseLock(),r.reader=null}}async function t(r,a){let l=r.sourceElement,f=C(l),h=!1,o=null;function c(){a&&(a(),a=
null)}f.releaseOn==="immediate"&&c();let u={url:r.request.action,config:f,abortController:{abort:r.request.abort,signal:r.request.signal},reader:null,
lastEventId:"",delayCanceller:null,visibilityHandler:null,attempt:0,cancelled:!1,status:null};d.htmxProp(l).sse=u;let m=()=>{!l.isConnected||
h||(h=!0,u.delayCanceller&&u.delayCanceller(),u.reader?.cancel())},v=!1,w=null;if(f.pauseOnBackground){let g=()=>{document.hidden?(v=!0,u.reader?.
cancel()):v&&(v=!1,w&&w())};document.addEventListener("visibilitychange",g),u.visibilityHandler=g}if(u.cancelled=!1,!d.triggerHtmxEvent(l,"h\
tmx:sse:before:connection",{connection:u})||u.cancelled){s(l,"cancelled");return}u.status=r.response.status,d.triggerHtmxEvent(l,"htmx:sse:a\
fter:connection",{connection:u});let x=r.response.raw;try{for(;l.isConnected;){if(u.attempt>0){if(v){if(await new Promise(q=>{w=q}),w=null,!l.
isConnected)break;u.attempt=1,h=!0}if(!h&&(!f.reconnect||u.attempt>f.reconnectMaxAttempts))break;let g=htmx.parseInterval(f.reconnectDelay)??
f.reconnectDelay,T=htmx.parseInterval(f.reconnectMaxDelay)??f.reconnectMaxDelay,b=Math.min(g*Math.pow(2,u.attempt-1),T);if(f.reconnectJitter>
0){let q=b*f.reconnectJitter;b=Math.max(0,b+(Math.random()*2-1)*q)}if(u.cancelled=!1,!d.triggerHtmxEvent(l,"htmx:sse:before:connection",{connection:u})||
u.cancelled||(await new Promise(q=>{u.delayCanceller=q,setTimeout(q,b)}),u.delayCanceller=null,!l.isConnected))break;let E=new AbortController;
u.abortController=E;let y=!1,A=htmx.parseInterval(f.connectTimeout)??f.connectTimeout,I=A>0?setTimeout(()=>{y=!0,E.abort()},A):null;try{p(r.
request.headers),u.lastEventId&&(r.request.headers["Last-Event-ID"]=u.lastEventId),x=await fetch(r.request.action,{...r.request,signal:E.signal}),
clearTimeout(I)}catch(q){if(clearTimeout(I),E.signal.aborted&&!y)break;d.triggerHtmxEvent(l,"htmx:sse:error",{connection:u,error:q}),h=!1,u.
attempt++;continue}if(!x.ok){d.triggerHtmxEvent(l,"htmx:sse:error",{connection:u,error:new Error(`SSE reconnect failed with status ${x.status}`),
status:x.status}),h=!1,u.attempt++;continue}u.status=x.status,d.triggerHtmxEvent(l,"htmx:sse:after:connection",{connection:u}),u.attempt=0}h=
!1;try{u.reader=x.body.getReader();for await(let g of e(u)){if(!l.isConnected||h)break;if(g.hasId&&(u.lastEventId=g.id,g.id||p(r.request.headers)),
!g.hasData&&!g.event)continue;let T=[],b={connection:u,message:{data:g.data,event:g.event,id:g.id},cancelled:!1,waitUntil:y=>T.push(Promise.
resolve(y))},E=d.triggerHtmxEvent(l,"htmx:sse:before:message",b);if(await Promise.all(T),!(!E||b.cancelled)){if(g.retry!=null&&(f.reconnectDelay=
g.retry),b.message.event){b.message.event==="hx:release"&&c(),htmx.trigger(l,b.message.event,{data:b.message.data,id:b.message.id}),d.triggerHtmxEvent(
l,"htmx:sse:after:message",{connection:u,message:b.message});let y=d.attributeValue(l,"hx-sse:close");if(y&&b.message.event===y){o="message",
u.reader?.cancel();return}continue}r.text=b.message.data,r.swap.includes("swapEmpty")||(r.swap+=" swapEmpty:false"),await htmx.swap(r),f.releaseOn===
"first"&&c(),d.triggerHtmxEvent(l,"htmx:sse:after:message",{connection:u,message:b.message})}}}catch(g){!u.abortController?.signal?.aborted&&
g.name!=="AbortError"&&d.triggerHtmxEvent(l,"htmx:sse:error",{connection:u,error:g})}if(!l.isConnected)break;u.attempt++}}finally{c(),s(l,o??
(l.isConnected?"ended":"removed"))}}function i(r){let a=d.attributeValue(r,"hx-sse:connect");if(!a||r._htmx?.sse)return;let l=d.attributeValue(
r,"hx-trigger")||"load";d.onTrigger(r,l,()=>{r._htmx?.sse||htmx.ajax("GET",a,{source:r,timeout:C(r).connectTimeout})})}function s(r,a){let l=r?.
_htmx?.sse;l&&(l.reader?.cancel?.(),l.abortController?.abort(),l.delayCanceller&&l.delayCanceller(),l.visibilityHandler&&document.removeEventListener(
"visibilitychange",l.visibilityHandler),d.triggerHtmxEvent(r,"htmx:sse:close",{connection:l,reason:a||"cleanup"}),delete r._htmx.sse)}function n(r){
for(let a of["sse-connect","sse-close","sse-swap"])!r.hasAttribute(a)||S.has(a)||(console.warn(a==="sse-swap"?"htmx: [hx-sse] sse-swap is re\
moved in htmx 4. Unnamed SSE messages are swapped automatically. Named events are dispatched as DOM events.":`htmx: [hx-sse] legacy attribut\
e ${a} is deprecated; use hx-sse:${a.slice(4)} instead`),S.add(a))}htmx.registerExtension("sse",{init:r=>{d=r},htmx_config_request:(r,{ctx:a})=>{
a.request.headers.Accept=`${a.request.headers.Accept??a.request.headers.accept??"text/html"}, text/event-stream`,a.timeout!=null&&(a.request.
timeout=a.timeout)},htmx_before_response:(r,a)=>{let l=a.ctx;if(!l.response.raw.headers.get("Content-Type")?.includes("text/event-stream"))return;
clearTimeout(l.requestTimeout);let h;return l.extensionPromise=new Promise(o=>h=o),t(l,h).catch(o=>{o.name!=="AbortError"&&d.triggerHtmxEvent(
r,"htmx:sse:error",{error:o,url:l.request.action})}),!1},htmx_after_process:r=>{let a=htmx.config.metaCharacter||":",l=o=>{n(o);for(let c of[
"connect","close"]){let u=`sse-${c}`;if(!o.hasAttribute(u))continue;let m=(htmx.config.prefix||"hx-")+"sse"+a+c;o.hasAttribute(m)||o.setAttribute(
m,o.getAttribute(u))}i(o)};l(r);let h=`[${CSS.escape("hx-sse"+a+"connect")}]`;htmx.config.prefix&&(h+=`,[${CSS.escape(htmx.config.prefix+"ss\
e"+a+"connect")}]`),r.querySelectorAll(`${h},[sse-connect],[sse-close],[sse-swap]`).forEach(l)},htmx_before_cleanup:r=>{s(r)}})})();var O=2e4,M=5e3;addEventListener("DOMContentLoaded",()=>{let d=document.getElementById("events");if(!d)return;let S=document.getElementById(
"refresh"),C,p=Date.now(),e=p,t=!1,i=s=>{for(let n of document.getElementById("connection").children)n.hidden=n.dataset.state!==s};for(let s of[
"changed","beat"])d.addEventListener(s,()=>{p=Date.now()});addEventListener("htmx:sse:before:connection",s=>{document.hidden&&s.preventDefault()}),
document.addEventListener("visibilitychange",()=>{document.hidden||d.dispatchEvent(new Event("again"))}),addEventListener("htmx:sse:after:co\
nnection",({detail:s})=>{C=s.connection,e=Date.now(),t=!1,i()}),addEventListener("htmx:sse:error",({detail:s})=>{s.status===401?i("login"):s.
connection?.attempt>0&&i("lost")}),addEventListener("htmx:error",({detail:s})=>{s.ctx&&!s.ctx.response&&s.error?.name!=="AbortError"&&i("los\
t")}),addEventListener("htmx:after:request",s=>{let{sourceElement:n,response:r,text:a}=s.detail.ctx,l=n===S&&!a.includes('id="live"');l&&s.preventDefault(),
t=!1,i(r.status===401?"login":l?"lost":void 0)}),setInterval(()=>{document.hidden||Date.now()-p<=O||(t&&i("lost"),t||=!!S,Date.now()-e>O&&(e=
Date.now(),t=!0,C?.reader?.cancel()),d.dispatchEvent(new Event("again")),S?.dispatchEvent(new Event("stale")))},M)});addEventListener("submi\
t",({target:d})=>{if(d.method!=="post")return;let S=C=>{for(let p of d.querySelectorAll("button"))p.disabled=C};setTimeout(S,0,!0),setTimeout(
S,M,!1)});})();
