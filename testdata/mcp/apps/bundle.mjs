// bundle.mjs NPM ENTRY OUT: bundles a script for a browser with the packages that the MCP Inspector in NPM has installed, among them a
// bundler and the official bridge of MCP Apps.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [npm, input, file] = process.argv.slice(2);
const installed = path.join(npm, "@modelcontextprotocol/inspector/package.json");
const { rolldown } = await import(pathToFileURL(createRequire(installed).resolve("rolldown")));
const bundle = await rolldown({
  input,
  platform: "browser",
  plugins: [{
    name: "installed",
    resolveId(id, importer) { return importer === input && !id.startsWith(".") ? this.resolve(id, installed) : null; },
  }],
});
await bundle.write({ file, format: "iife" });
