// measure.mjs ONECALL ROUNDS FILE measures the tasks and writes what came of them to FILE. Each arm's results are checked: what is wrong
// is its result. The Go program beside makes tables of them.
import assert from 'node:assert/strict'
import {readFileSync, statSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import {getEncoding} from 'js-tiktoken'
import * as arms from './arms.mjs'
import {configure, follow, mistyped} from './tasks.mjs'
import {Upstream, folder, transports, written} from './upstream.mjs'

const [program, rounds, file] = process.argv.slice(2)
const encoding = getEncoding('o200k_base')
const tokens = value => encoding.encode(typeof value === 'string' ? value : JSON.stringify(value)).length
const upstream = dir => Upstream.open(transports(dir))
const open = {
  bare: async dir => arms.bare(await upstream(dir)),
  onecall: dir => arms.onecall(dir, program),
  cloudflare: async dir => arms.cloudflare(await upstream(dir)),
  aiSDK: async dir => arms.aiSDK(await upstream(dir)),
  utcp: dir => arms.utcp(dir, arms.utcpServers(dir)),
}
const names = Object.keys(open)
const chainOr = (task, name) => task[name === 'onecall' ? 'chain' : name]
// call is a call as a model writes it. The code modes' program is the argument of a tool.
const call = (name, args) => JSON.stringify({name, arguments: args})
const sent = (name, program) => name === 'onecall' ? call('chain', program) : call('code', {code: program})
const plain = name => name === 'onecall' ? configure.chain(false) : configure[name](false)
console.log = () => {} // UTCP writes a log there

const limit = 60_000 // milliseconds that an arm may take for a task

// bounded is a promise that fails when it takes too long.
const bounded = promise => {
  let timer
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`took more than ${limit / 1000} s`)), limit) })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

// end closes an arm; an arm that does not end well has a fault, and leaves the others be.
const end = async (arm, result) => {
  try { await bounded(arm?.close()) } catch (e) { result.fault ??= `does not end: ${e.message}` }
}

// each has all arms do a task, each in a folder of its own, and keeps what came of it.
async function each(results, task, broken, run) {
  for (const name of names) {
    let arm
    try {
      const dir = folder(broken)
      arm = await bounded(open[name](dir))
      results[name][task] = await bounded(run(name, arm, dir))
    } catch (e) {
      results[name][task] = {fault: e.message}
    }
    await end(arm, results[name][task])
  }
}

const hostsOf = dir => JSON.parse(readFileSync(join(dir, 'inventory.json'), 'utf8'))

// task is ten hosts: what a model reads and writes until the files are there.
async function task(name, arm, dir) {
  const want = Object.fromEntries(hostsOf(dir).map(h => [`${h.name}.conf`, `role ${h.role}\n`]))
  let result
  if (name === 'bare') {
    const calls = [configure.first, ...configure.calls(hostsOf(dir))]
    const {ok, answer, read} = await arm.runCalls(calls)
    assert.ok(ok, answer)
    const wrote = calls.map(([name, args]) => call(name, args))
    // The writes do not need one another: side by side they are one round trip.
    result = {list: tokens(arm.list), roundTrips: calls.length, sideBySide: 2, wrote: tokens(wrote.join('\n')), read: tokens(read.join('\n'))}
  } else {
    const {ok, answer} = await arm.run(plain(name))
    assert.ok(ok, answer)
    assert.equal(+JSON.parse(answer).written, 10)
    result = {list: tokens(arm.list), roundTrips: 1, sideBySide: 1, wrote: tokens(sent(name, plain(name))), read: tokens(answer)}
  }
  assert.deepEqual(written(dir), want)
  if (arm.search) { // the functions are not in the list: the model asks for them first
    const query = 'read a text file, write a file'
    result.roundTrips++
    result.sideBySide++
    result.wrote += tokens(call('search', {query}))
    result.read += tokens(await arm.search(query))
  }
  return result
}

// failure: the sixth write fails. What the answer says, and what is written twice when the corrected program runs.
async function failure(name, arm, dir) {
  const hosts = hostsOf(dir)
  const first = await (name === 'bare' ? arm.runCalls([configure.first, ...configure.calls(hosts)]) : arm.run(plain(name)))
  const made = Object.keys(written(dir))
  const before = stamps(dir)
  await new Promise(r => setTimeout(r, 20)) // a file that is written again has another time
  let second
  if (name === 'bare') {
    second = await arm.runCalls(configure.calls(hosts.map(h => ({...h, name: h.name.replace('/', '-')}))).slice(first.read.length - 2))
  } else if (name === 'onecall') {
    second = await arm.run(configure.resume(JSON.parse(first.answer).resume))
  } else {
    second = await arm.run(configure[name](true))
  }
  assert.ok(second.ok, second.answer)
  assert.equal(Object.keys(written(dir)).length, 10)
  const after = stamps(dir)
  return {
    ok: first.ok,
    saysWhere: first.answer.includes('dc/web-5'),
    saysWhatWasWritten: toldOf(first.read?.join('\n') ?? first.answer, made),
    files: made.length, writtenAgain: made.filter(f => after[f] !== before[f]).length,
  }
}

// toldOf is how a text says which hosts' files are there: "yes", by their names; else by their places in the list of hosts, or their number.
const toldOf = (text, made) => {
  if (made.every(f => text.includes(f.replace('.conf', '')))) return 'yes'
  const found = text.match(new RegExp(`\\b(0-${made.length - 1})\\b|written\\W+(${made.length})\\b`))
  if (!found) return 'no'
  return found[1] ? `by place: ${found[1]}` : `by number: ${found[2]}`
}

const stamps = dir => Object.fromEntries(Object.keys(written(dir)).map(f => [f, statSync(join(dir, 'conf', f)).mtimeMs]))

// mistake: a tool that is not there is called after the writes. How many files are there when the mistake is noticed.
async function mistake(name, arm, dir) {
  const {ok, answer} = await (name === 'bare'
    ? arm.runCalls([configure.first, ...configure.calls(hostsOf(dir)), mistyped.call]) : arm.run(chainOr(mistyped, name)))
  assert.ok(!ok, answer)
  return {files: Object.keys(written(dir)).length}
}

// dependent is ten dependent calls, by turns, in milliseconds.
async function dependent(results) {
  const turns = []
  for (const name of names) {
    try {
      turns.push({name, arm: await bounded(open[name](folder(false))), times: []})
    } catch (e) {
      results[name].dependent = {fault: e.message}
    }
  }
  for (let i = -3; i < +rounds; i++) {
    for (const turn of turns) {
      if (turn.fault) continue
      try {
        const began = performance.now()
        const got = await bounded(followed(turn))
        assert.equal(got, '10.txt')
        if (i >= 0) turn.times.push(performance.now() - began)
      } catch (e) {
        turn.fault = e.message
      }
    }
  }
  for (const {name, arm, times, fault} of turns) {
    times.sort((x, y) => x - y)
    results[name].dependent = fault ? {fault} : {fastest: times[0], median: times[times.length >> 1], rounds: times.length}
    await end(arm, results[name].dependent)
  }
}

async function followed({name, arm}) {
  if (name === 'bare') {
    let got = '0.txt'
    for (let n = 0; n < 10; n++) got = (await arm.upstream.call('filesystem_read_text_file', {path: got})).content
    return got
  }
  const {ok, answer} = await arm.run(chainOr(follow, name))
  assert.ok(ok, answer)
  return answer.replaceAll('"', '')
}

const results = Object.fromEntries(names.map(name => [name, {}]))
await each(results, 'task', false, task)
await each(results, 'failure', true, failure)
await each(results, 'mistake', false, mistake)
await dependent(results)
writeFileSync(file, JSON.stringify({node: process.version, arms: results}))
process.exit(0)
