/* Built by internal/console/build from prism-code-editor 5.4.0:

MIT License

Copyright (c) 2023 Jonas Pytte

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.

"""
This license applies to parts of the `package/src/prism` subdirectory originating
from https://github.com/PrismJS/prism:

MIT LICENSE

Copyright (c) 2012 Lea Verou

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in
all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN
THE SOFTWARE.
""" */
(()=>{var B={},R=Symbol(),oe=Symbol(),ee=e=>typeof e=="string"?A[e]:e,A={plain:B,plaintext:B,text:B,txt:B},J=(e,t)=>(t[oe]||ce)(e,t),ce=(e,t)=>{for(var n=[
e],r,c=[],u=0;r=ee(t[R]);)delete t[R],Object.assign(t,r);for(ae(e,t,n,0);c[u++]=n[0],n=n[1];);return c},ue=(e,t,n)=>e.replace(/&/g,"&amp;").
replace(t,n),N="</span>",U="",G="",K=e=>{for(var t="",n,r=0;n=e[r++];)t+=te(n);return t},te=e=>{if(e instanceof q){var{type:t,alias:n,content:r}=e,
c=U,u=G,s=`<span class="token ${t+(n?" "+n:"")+(t=="keyword"&&typeof r=="string"?" keyword-"+r.replace(/"|\s/g,""):"")}">`;G+=N,U+=s;var p=te(
r);return U=c,G=u,s+p+N}return typeof e!="string"?K(e):(e=ue(e,/</g,"&lt;"),G&&e.includes(`
`)?e.replace(/\n/g,G+`
`+U):e)};var ae=(e,t,n,r,c)=>{for(var u in t)if(t[u])for(var s=0,p=t[u],g,z=Array.isArray(p)?p:[p];g=z[s];s++){if(c&&c[0]==u&&c[1]==s)return;for(var x=g.
pattern||g,k=ee(g.inside),O=g.lookbehind,m=x.global,F=g.alias,o=n,d=r;o&&(!c||d<c[2]);d+=o[0].length,o=o[1]){var l=o[0],v=0,b;if(!(l instanceof
q)){if(x.lastIndex=m?d:0,b=x.exec(m?e:l),!b&&m)break;if(b&&b[0]){var H=O&&b[1]?b[1].length:0,y=b.index+H,L=b[0].slice(H),P=y+L.length,w,p;if(m){
for(;p=d+o[0].length,y>=p;o=o[1],d=p);if(o[0]instanceof q)continue;for(w=o,p=d;(p+=w[0].length)<P;w=w[1],v++);l=e.slice(d,p),y-=d,P-=d}for(var T=l.
slice(P),S=d+l.length,I=new q(u,k?J(L,k):L,L,F),f=o,W=0,E;f=f[1],W++<v;);T&&(!f||f[0]instanceof q?f=[T,f]:f[0]=T+f[0]),d+=y,o[0]=y?l.slice(0,
y):I,y?o=o[1]=[I,f]:o[1]=f,v&&(ae(e,t,o,d,E=[u,s,S]),S=E[2]),c&&S>c[2]&&(c[2]=S)}}}}};function q(e,t,n,r){this.type=e,this.content=t,this.alias=
r,this.length=n.length}var Z=(e,t,...n)=>{let r,c=[],u,s="",p,g=!1,z=!0,x=[],k,O=0,m=de(),F=m.firstChild,o=F.children,d=o[0],l=d.firstChild,v={language:"text",value:s},
b=new Set(n),H={},y=a=>{Object.assign(v,a);let i=s!=(s=a.value??s),h=r!=(r=v.language);k=!!v.readOnly,m.style.tabSize=v.tabSize||2,l.inputMode=
k?"none":"",l.setAttribute("aria-readonly",k),w(),P(),i&&(g||l.remove(),l.value=s,l.selectionEnd=0,g||d.prepend(l)),(i||h)&&L()},L=()=>{x=J(
s=l.value,A[r]||{}),f("tokenize",x,r,s);let a=K(x).split(`
`),i=0,h=O,$=O=a.length;for(;a[i]==c[i]&&i<$;)++i;for(;$&&a[--$]==c[--h];);if(i==$&&i==h)o[i+1].innerHTML=a[i]+`
`;else{let j=h<i?h:i-1,D=j,_="";for(;D<$;)_+=`<div class=pce-line aria-hidden=true>${a[++D]}
</div>`;for(D=$<i?$:i-1;D<h;D++)o[i+1].remove();_&&o[j+1].insertAdjacentHTML("afterend",_),m.style.setProperty("--number-width",(0|Math.log10(
O))+1+".001ch")}f("update",s),W(!0),z&&setTimeout(setTimeout,0,()=>z=!0),c=a,z=!1},P=a=>{(a||b).forEach(i=>{typeof i=="object"?(i.update(E,v),
a&&b.add(i)):(i(E,v),a||b.delete(i))})},w=([a,i]=T())=>{m.className=`prism-code-editor language-${r}${v.lineNumbers==!1?"":" show-line-numbe\
rs"} pce-${v.wordWrap?"":"no"}wrap${v.rtl?" pce-rtl":""} pce-${a<i?"has":"no"}-selection${g?" pce-focus":""}${k?" pce-readonly":""}${v.class?
" "+v.class:""}`},T=()=>[l.selectionStart,l.selectionEnd,l.selectionDirection],S={Escape(){l.blur()}},I={},f=(a,...i)=>{H[a]?.forEach(h=>h.apply(
E,i)),v["on"+a[0].toUpperCase()+a.slice(1)]?.(...i,E)},W=a=>{if(a||z){let i=T(),h=o[p=ie(s,0,i[i[2]<"f"?0:1])];h!=u&&(u?.classList.remove("a\
ctive-line"),h.classList.add("active-line"),u=h),w(i),f("selectionChange",i,s)}},E={container:m,wrapper:F,lines:o,textarea:l,get activeLine(){
return p},get value(){return s},options:v,get focused(){return g},get tokens(){return x},inputCommandMap:I,keyCommandMap:S,extensions:{},setOptions:y,
update:L,getSelection:T,addExtensions(...a){P(a)},on:(a,i)=>((H[a]||=new Set).add(i),()=>H[a].delete(i)),remove(){m.remove()}};return M(l,"k\
eydown",a=>{S[a.key]?.(a,T(),s)&&X(a)}),M(l,"beforeinput",a=>{(k||a.inputType=="insertText"&&I[a.data]?.(a,T(),s))&&X(a)}),M(l,"input",L),M(
l,"blur",()=>{Y=null,g=!1,w()}),M(l,"focus",()=>{Y=W,g=!0,w()}),M(l,"selectionchange",a=>{W(!a.isTrusted),X(a)}),pe(e)?.append(m),t&&y(t),E};var V="u">typeof window?document:null,Q=V?.createElement("div"),ve=(e,t)=>(Q&&(Q.innerHTML=e,t=Q.firstChild),()=>t.cloneNode(!0)),M=(e,t,n,r)=>e.
addEventListener(t,n,r),pe=e=>typeof e=="string"?V.querySelector(e):e,ie=(e,t=0,n=1/0)=>{let r=1;for(;(t=e.indexOf(`
`,t)+1)&&t<=n;r++);return r};var de=ve("<div><div class=pce-wrapper><div class=pce-overlays><textarea class=pce-textarea spellcheck=false autocapitalize=off autocomplete\
=off>"),X=e=>{e.preventDefault(),e.stopImmediatePropagation()};var Y;V&&M(V,"selectionchange",()=>Y?.());var ne=/\/\/.*|\/\*[^]*?(?:\*\/|$)/g;var re=/\b(?:false|true)\b/;A.webmanifest=A.json={property:/"(?:\\.|[^\\\n"])*"(?=\s*:)/g,string:/"(?:\\.|[^\\\n"])*"/g,comment:ne,number:/-?\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b/i,
operator:/:/,punctuation:/[[\]{},]/,boolean:re,null:{pattern:/\bnull\b/,alias:"keyword"}};var le=1e5,se=e=>e.length<=le&&/^\s*[{[]/.test(e)?"json":"text",C=document.querySelector("textarea.code");if(C&&C.value.length<=le){let e=C.
offsetHeight,t=Z(null,{value:C.value,language:se(C.value),wordWrap:!0});t.on("update",u=>{let s=se(u);s!==t.options.language&&setTimeout(()=>t.
setOptions({language:s}))});let{container:n,textarea:r}=t;for(let{name:u,value:s}of C.attributes)u!=="class"&&u!=="rows"&&r.setAttribute(u,s);
let c=document.activeElement===C;C.replaceWith(n),n.style.height=`${e}px`,c&&r.focus(),window.htmx.process(n)}})();
