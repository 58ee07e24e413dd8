// Counts the texts of reference.json again with OpenAI's own implementation, compiled to WebAssembly:
//   npm install tiktoken@1.0.22 && node reference.mjs
import { readFileSync, writeFileSync } from "node:fs";
import { get_encoding } from "tiktoken";

const file = new URL("reference.json", import.meta.url);
const encoding = get_encoding("o200k_base");
const cases = JSON.parse(readFileSync(file, "utf8"));
for (const c of cases) c.tokens = encoding.encode_ordinary(c.text).length;
writeFileSync(file, "[\n" + cases.map((c) => JSON.stringify(c)).join(",\n") + "\n]\n");
