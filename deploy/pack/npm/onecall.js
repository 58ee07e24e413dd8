#!/usr/bin/env node
// Starts the onecall program of this machine's package, with the same arguments and streams, and ends as it ends.
'use strict';

const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const { isatty } = require('node:tty');

const target = `@onecall-mcp/onecall-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${target}/bin/onecall${process.platform === 'win32' ? '.exe' : ''}`);
} catch {
  console.error(`onecall: the package ${target} is not installed. Either there is none for this system, or npm left out optional
dependencies: install @onecall-mcp/onecall again without --omit=optional. Other ways: https://github.com/onecall-mcp/onecall/blob/main/docs/install.md`);
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
child.on('error', (error) => {
  console.error(`onecall: ${error.message}`);
  process.exit(1);
});

// A terminal interrupts the child as well, and the second interrupt of onecall ends it at once: only other senders are passed on.
// process.stdin is not used: it would make a pipe non-blocking for the program too, whose reads then fail.
const terminal = [0, 1, 2].some(isatty);
const caught = ['SIGINT', 'SIGTERM', 'SIGHUP'];
for (const signal of caught) {
  process.on(signal, () => {
    if (signal !== 'SIGINT' || !terminal) child.kill(signal);
  });
}

child.on('exit', (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Of a signal that does not end this process, the status tells.
  process.exitCode = 128 + constants.signals[signal];
});
