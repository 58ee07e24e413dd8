// The tasks, each written for each arm as a model would write it: one round trip of a model gives the whole text.

const file = host => `conf/${host}.conf`

// configure writes a file for each host of an inventory. mended writes one whose name has a slash under another name; without it that
// host's file has no folder, and the sixth of ten writes fails.
export const configure = {
  calls: hosts => hosts.map(h => ['filesystem_write_file', {path: file(h.name), content: `role ${h.role}\n`}]),
  first: ['filesystem_read_text_file', {path: 'inventory.json'}],
  chain: mended => ({
    steps: [
      {id: 'read', fn: 'filesystem.read_text_file', args: {path: 'inventory.json'}},
      {id: 'hosts', expr: 'fromJSON($read.content)'},
      write(mended),
      {expr: '{written: len($done)}'},
    ],
    lite: true,
  }),
  resume: run => ({resume: run, replace: {done: write(true)}, lite: true}),
  aiSDK: mended => `const {content} = await tools.filesystem_read_text_file({path: 'inventory.json'})
const hosts = JSON.parse(content)
for (const h of hosts) await tools.filesystem_write_file({path: \`conf/\${h.name${slash(mended)}}.conf\`, content: \`role \${h.role}\\n\`})
return {written: hosts.length}`,
  // Its calls give a text that is JSON as the value, and a failed call's message as a result.
  utcp: mended => `const hosts = m.filesystem_read_text_file({path: 'inventory.json'})
for (const h of hosts) m.filesystem_write_file({path: \`conf/\${h.name${slash(mended)}}.conf\`, content: \`role \${h.role}\\n\`})
return {written: hosts.length}`,
  cloudflare: mended => `async () => {
  const {content} = await codemode.filesystem_read_text_file({path: 'inventory.json'})
  const hosts = JSON.parse(content)
  for (const h of hosts) await codemode.filesystem_write_file({path: \`conf/\${h.name${slash(mended)}}.conf\`, content: \`role \${h.role}\\n\`})
  return {written: hosts.length}
}`,
}

const slash = mended => mended ? `.replace('/', '-')` : ''
const write = mended => ({id: 'done', fn: 'filesystem.write_file',
  forEach: mended ? `map($hosts, ({name: replace(.name, '/', '-'), role: .role}))` : '$hosts',
  args: {path: 'conf/${$item.name}.conf', content: 'role ${$item.role}\n'}})

// follow reads ten files, each of which names the next.
export const follow = {
  chain: {
    steps: Array.from({length: 10}, (_, i) => ({fn: 'filesystem.read_text_file', args: {path: i ? `$${i - 1}.content` : '0.txt'}})),
    return: '$9.content', lite: true,
  },
  aiSDK: `let path = '0.txt'
for (let i = 0; i < 10; i++) path = (await tools.filesystem_read_text_file({path})).content
return path`,
  utcp: `let path = '0.txt'
for (let i = 0; i < 10; i++) path = m.filesystem_read_text_file({path})
return path`,
  cloudflare: `async () => {
  let path = '0.txt'
  for (let i = 0; i < 10; i++) path = (await codemode.filesystem_read_text_file({path})).content
  return path
}`,
}

// mistyped is configure with a call of a tool that is not there behind the writes.
export const mistyped = {
  call: ['filesystem_get_file_inf', {path: 'conf'}],
  chain: {
    ...configure.chain(false),
    steps: [...configure.chain(false).steps, {fn: 'filesystem.get_file_inf', args: {path: 'conf'}}],
  },
  aiSDK: configure.aiSDK(false).replace('return', `await tools.filesystem_get_file_inf({path: 'conf'})\nreturn`),
  utcp: configure.utcp(false).replace('return', `m.filesystem_get_file_inf({path: 'conf'})\nreturn`),
  cloudflare: configure.cloudflare(false).replace('return', `await codemode.filesystem_get_file_inf({path: 'conf'})\n  return`),
}
