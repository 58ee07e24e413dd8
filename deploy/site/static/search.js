// The search of the site: pages that have all words, those with a word in the title first, decisions last.
const root = new URL(".", document.currentScript.src);
const box = document.querySelector(".search"), input = box.querySelector("input"), list = box.querySelector("ol");
let pages;
box.hidden = false;

input.addEventListener("focus", () => { pages ??= fetch(new URL("index.json", root)).then(answer => answer.json()); }, {once: true});
input.addEventListener("input", async () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(word => word), asked = input.value;
  const all = await pages;
  if (asked !== input.value) return;
  const rank = page => words.filter(word => page.title.toLowerCase().includes(word)).length - (page.url.includes("/decisions/") ? 10 : 0);
  const found = words.length === 0 ? [] : all.filter(page => words.every(word => (page.title + " " + page.text).toLowerCase().includes(word)));
  list.replaceChildren(...found.sort((a, b) => rank(b) - rank(a)).slice(0, 12).map(page => item(page, words[0])));
  if (words.length > 0 && found.length === 0) list.append(Object.assign(document.createElement("li"), {textContent: "Nothing found"}));
});
document.addEventListener("keydown", event => { if (event.key === "Escape") { input.value = ""; list.replaceChildren(); } });

function item(page, word) {
  const entry = document.createElement("li"), link = document.createElement("a"), excerpt = document.createElement("span");
  const at = Math.max(0, page.text.toLowerCase().indexOf(word) - 40);
  link.href = new URL(page.url, root);
  link.textContent = page.title;
  excerpt.textContent = page.text.slice(at, at + 120);
  entry.append(link, excerpt);
  return entry;
}
