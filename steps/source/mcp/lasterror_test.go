package mcp

import "testing"

// TestLastError: the message shows only the error line of a stack trace, and all of any other output.
func TestLastError(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"[eval]:1\nthrow new Error('config is missing')\n^\n\nError: config is missing\n    at [eval]:1:7\n    at runScript (node:internal)\n\nNode.js v20\n": "Error: config is missing",
		"Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: bad: x\n":                                                                   "ValueError: bad: x",
		"panic: no key\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:4 +0x1\nexit status 2\n":                                                               "panic: no key",
		"Error: one\nlater\nError: two\n":   "Error: two",
		"  boom\nand more \n":               "boom\nand more",
		"TypeError [ERR_X]: not so\n  at a": "TypeError [ERR_X]: not so",
		"":                                  "",
	} {
		if got := lastError(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}
