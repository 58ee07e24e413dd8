// What the language service of VS Code says of documents, as JSON: node ask.mjs FOLDER < {"schemas":{url: schema},"documents":[text]}.
// FOLDER holds node_modules. The mark █ in a document is where completions and the hover text are asked for, and is no part of it.
import {createRequire} from 'node:module';
import fs from 'node:fs';

const require = createRequire(process.argv[2] + '/');
const {getLanguageService, TextDocument} = require('vscode-json-languageservice');
const asked = JSON.parse(fs.readFileSync(0, 'utf8'));
const service = getLanguageService({
  schemaRequestService: async url => {
    if (!(url in asked.schemas)) throw new Error('there is no ' + url);
    return JSON.stringify(asked.schemas[url]);
  },
  workspaceContext: {resolveRelativePath: (relative, resource) => new URL(relative, resource).href},
});
service.configure({validate: true});

const answers = [];
for (const marked of asked.documents) {
  const at = marked.indexOf('█');
  const document = TextDocument.create('file:///example/a.chain.json', 'json', 1, marked.replace('█', ''));
  const parsed = service.parseJSONDocument(document);
  const found = await service.doValidation(document, parsed);
  const answer = {diagnostics: found.map(d => document.getText(d.range) + ': ' + d.message), completions: [], hover: ''};
  if (at >= 0) {
    const position = document.positionAt(at);
    answer.completions = (await service.doComplete(document, position, parsed)).items.map(item => item.label);
    const hover = await service.doHover(document, position, parsed);
    if (hover) answer.hover = [hover.contents].flat().map(part => part.value ?? part).join('\n');
  }
  answers.push(answer);
}
console.log(JSON.stringify(answers));
