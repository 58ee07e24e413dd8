// The editor of chains: line numbers and colors for the textarea of a page, whose place it takes. Without script the page has just that.
import { createEditor } from "prism-code-editor";
import "prism-code-editor/prism/languages/json";
import "./editor.css";

// Longer texts have no colors, and a page that opens with one keeps its textarea: each key would take too long.
const most = 100_000;

const languageOf = (text) => (text.length <= most && /^\s*[{[]/.test(text) ? "json" : "text");

const plain = document.querySelector("textarea.code");
if (plain && plain.value.length <= most) {
  const height = plain.offsetHeight;
  const editor = createEditor(null, { value: plain.value, language: languageOf(plain.value), wordWrap: true });
  editor.on("update", (text) => {
    const language = languageOf(text);
    if (language !== editor.options.language) setTimeout(() => editor.setOptions({ language }));
  });
  const { container, textarea } = editor;
  for (const { name, value } of plain.attributes) if (name !== "class" && name !== "rows") textarea.setAttribute(name, value);
  const focused = document.activeElement === plain; // else its attribute autofocus has yet to count
  plain.replaceWith(container);
  container.style.height = `${height}px`;
  if (focused) textarea.focus();
  window.htmx.process(container);
}
