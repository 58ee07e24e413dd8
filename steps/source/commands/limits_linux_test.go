//go:build !race

package commands_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/commands"
)

// TestProcessorTime: a program that uses up its processor time is ended, and the error says which bound it met.
func TestProcessorTime(t *testing.T) {
	t.Parallel()
	shell := func(name, script string) commands.Command {
		return commands.Command{Name: name, Run: []string{"/bin/sh", "-c", script}, MaxCPUTime: time.Second}
	}
	s := open(t, t.TempDir(), shell("spins", "while :; do :; done"), shell("ignores", "trap '' XCPU; while :; do :; done"))
	if f := mustFail(t, s, "sh.spins", `{}`, fault.LimitExceeded); !strings.Contains(f.Message, "maxCpuTime (1s)") {
		t.Errorf("got %v", f)
	}
	if f := mustFail(t, s, "sh.ignores", `{}`, fault.FunctionFailed); !strings.Contains(f.Message, "was killed, perhaps") {
		t.Errorf("got %v", f)
	}
}

// TestMemory: a program cannot have more memory than its bound.
func TestMemory(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), with(self(t, "x", "hoard"), func(c *commands.Command) { c.MaxMemoryBytes = 256 << 20 }))
	f := mustFail(t, s, "sh.x", `{}`, fault.FunctionFailed)
	if r := decode(t, f.Body); !strings.Contains(f.Message, "out of memory") || r.Lines == 0 || r.Lines > 16 {
		t.Errorf("it got %d pieces of 16 MiB, and the error is %v", r.Lines, f)
	}
}
