// Measures docs/comparison.md: node compare.mjs ONECALL [ROUNDS] writes results.json beside this file. Each arm's results are checked.
import assert from 'node:assert/strict'
import {readFileSync, statSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import {getEncoding} from 'js-tiktoken'
import * as arms from './arms.mjs'
import {configure, follow, mistyped} from './tasks.mjs'
import {folder, written} from './upstream.mjs'

const [program, rounds = '30'] = process.argv.slice(2)
const encoding = getEncoding('o200k_base')
const tokens = value => encoding.encode(typeof value === 'string' ? value : JSON.stringify(value)).length
const codeArms = ['aiSDK', 'utcp', 'cloudflare']
const plain = name => name === 'onecall' ? configure.chain(false) : configure[name](false)
console.log = () => {} // UTCP writes a log there

// Ten hosts: what a model reads and writes until the files are there.
async function task(results) {
  let want
  {
    const dir = folder(false), a = await arms.bare(dir)
    const hosts = JSON.parse(readFileSync(join(dir, 'inventory.json'), 'utf8'))
    const calls = [configure.first, ...configure.calls(hosts)]
    const {ok, read} = await a.runCalls(calls)
    want = written(dir)
    assert.ok(ok && Object.keys(want).length === 10)
    const wrote = calls.map(([name, args]) => JSON.stringify({name, arguments: args}))
    results.bare = {list: tokens(a.list), roundTrips: calls.length, wrote: tokens(wrote.join('\n')), read: tokens(read.join('\n'))}
    await a.close()
  }
  for (const name of ['onecall', ...codeArms]) {
    const dir = folder(false), a = await arms[name](dir, program)
    const wrote = plain(name)
    const {ok, answer} = await a.run(wrote)
    assert.ok(ok, `${name}: ${answer}`)
    assert.deepEqual(written(dir), want, name)
    assert.equal(+JSON.parse(answer).written, 10)
    results[name] = {list: tokens(a.list), roundTrips: 1, wrote: tokens(wrote), read: tokens(answer)}
    if (a.search) { // the functions are not in the list: the model asks for them first
      const query = 'read a text file, write a file'
      results[name].roundTrips = 2
      results[name].wrote += tokens({query})
      results[name].read += tokens(await a.search(query))
    }
    await a.close()
  }
}

// The sixth write fails. What the answer says, and what is written twice when the corrected program runs.
async function failure(results) {
  for (const name of ['bare', 'onecall', ...codeArms]) {
    const dir = folder(true), a = await arms[name](dir, program)
    const hosts = JSON.parse(readFileSync(join(dir, 'inventory.json'), 'utf8'))
    const first = await (name === 'bare' ? a.runCalls([configure.first, ...configure.calls(hosts)]) : a.run(plain(name)))
    const made = Object.keys(written(dir))
    const before = stamps(dir)
    let second
    await new Promise(r => setTimeout(r, 20)) // a file that is written again has another time
    if (name === 'bare') {
      second = await a.runCalls(configure.calls(hosts.map(h => ({...h, name: h.name.replace('/', '-')}))).slice(first.read.length - 2))
    } else if (name === 'onecall') {
      second = await a.run(configure.resume(JSON.parse(first.answer).resume))
    } else {
      second = await a.run(configure[name](true))
    }
    assert.ok(second.ok, `${name}: ${second.answer}`)
    assert.equal(Object.keys(written(dir)).length, 10, name)
    const after = stamps(dir)
    results[name].failure = {
      ok: first.ok,
      answer: tokens(first.answer),
      saysWhere: first.answer.includes('dc/web-5'),
      saysWhatWasWritten: name === 'bare' || /"outcome":"applied"/.test(first.answer),
      files: made.length, writtenAgain: made.filter(f => after[f] !== before[f]).length,
    }
    await a.close()
  }
}

const stamps = dir => Object.fromEntries(Object.keys(written(dir)).map(f => [f, statSync(join(dir, 'conf', f)).mtimeMs]))

// A tool that is not there is called after the writes. How many files are there when the mistake is noticed.
async function mistake(results) {
  for (const name of ['onecall', ...codeArms]) {
    const dir = folder(false), a = await arms[name](dir, program)
    const {ok, answer} = await a.run(name === 'onecall' ? mistyped.chain : mistyped[name])
    assert.ok(!ok, `${name}: ${answer}`)
    results[name].mistake = {files: Object.keys(written(dir)).length}
    await a.close()
  }
  results.bare.mistake = {files: 10} // the model sends that call when it has made the others
}

// Ten dependent calls, by turns, in milliseconds.
async function dependent(results) {
  const open = []
  for (const name of ['bare', 'onecall', ...codeArms]) open.push([name, await arms[name](folder(false), program), []])
  for (let i = -3; i < +rounds; i++) {
    for (const [name, a, times] of open) {
      const began = performance.now()
      let got
      if (name === 'bare') {
        got = '0.txt'
        for (let n = 0; n < 10; n++) got = (await a.upstream.call('filesystem_read_text_file', {path: got})).content
      } else {
        const {ok, answer} = await a.run(name === 'onecall' ? follow.chain : follow[name])
        assert.ok(ok, answer)
        got = answer.replaceAll('"', '')
      }
      assert.equal(got, '10.txt', name)
      if (i >= 0) times.push(performance.now() - began)
    }
  }
  for (const [name, a, times] of open) {
    times.sort((x, y) => x - y)
    results[name].dependent = {fastest: +times[0].toFixed(1), median: +times[times.length >> 1].toFixed(1)}
    await a.close()
  }
}

const results = {}
await task(results)
await failure(results)
await mistake(results)
await dependent(results)
const versions = JSON.parse(readFileSync(join(import.meta.dirname, 'package.json'), 'utf8')).dependencies
const measured = {rounds: +rounds, node: process.version, versions, arms: results}
writeFileSync(join(import.meta.dirname, 'results.json'), JSON.stringify(measured, null, 2) + '\n')
process.exit(0)
