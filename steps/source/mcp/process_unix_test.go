//go:build unix

package mcp_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// The host is a program that embeds the source: it starts a server with a child, says so, and waits to be killed.
func init() {
	badServers["host"] = func() {
		exe, err := os.Executable()
		if err != nil {
			os.Exit(3)
		}
		s, err := mcpsource.New(&mcpsource.Options{Name: "shelf", Command: exe, Env: map[string]string{serverEnv: "heeds",
			"PIDS": os.Getenv("PIDS"), "HEEDS": os.Getenv("HEEDS")}})
		if err != nil {
			os.Exit(3)
		}
		if !poll(func() bool { return s.Status().State == steps.StateReady }) {
			os.Exit(3)
		}
		fmt.Println("ready")
		hang()
	}
}

// pids returns the process ids that the server "parent" has written down.
func pids(t *testing.T, file string) (ids []int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, pid)
	}
	return ids
}

// running reports whether the process exists and is not a zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func awaitExit(t *testing.T, all []int) {
	t.Helper()
	for _, pid := range all {
		if !poll(func() bool { return !running(pid) }) {
			t.Fatalf("process %d did not exit", pid)
		}
	}
}

// TestKilledHost: a child that ends at the end of its stdin or at SIGTERM ends with onecall, even if onecall is killed. The processes that
// the child has started see their stdin end too. Only Linux sends the signal.
func TestKilledHost(t *testing.T) {
	t.Parallel()
	for _, trigger := range []string{"eof", "term"} {
		t.Run(trigger, func(t *testing.T) {
			t.Parallel()
			if trigger == "term" && runtime.GOOS != "linux" {
				t.Skip("only Linux sends the signal")
			}
			killHost(t, trigger)
		})
	}
}

func killHost(t *testing.T, trigger string) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pids")
	host := exec.CommandContext(t.Context(), exe)
	host.Env = append(os.Environ(), serverEnv+"=host", "PIDS="+file, "HEEDS="+trigger)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 16)); n == 0 {
		t.Fatalf("no output: %v", err)
	}
	all := pids(t, file)
	if len(all) != 2 || !running(all[0]) || !running(all[1]) {
		t.Fatalf("got processes %v, want two that run", all)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	awaitExit(t, all)
}

// TestCloseEndsProcesses: Close ends a server that ignores signals, and the processes that a server has started, even if the server exits.
func TestCloseEndsProcesses(t *testing.T) {
	t.Parallel()
	for _, server := range []struct{ kind, leaves string }{{"stubborn", ""}, {"parent", ""}, {"parent", "yes"}} {
		t.Run(server.kind+" "+server.leaves, func(t *testing.T) {
			t.Parallel()
			o := childOptions(t, server.kind)
			o.Env["PIDS"], o.Env["LEAVES"] = filepath.Join(t.TempDir(), "pids"), server.leaves
			s := openReady(t, o)
			all := pids(t, o.Env["PIDS"])
			_ = s.Close()
			for _, pid := range all {
				if running(pid) {
					t.Errorf("process %d is running after Close", pid)
				}
			}
		})
	}
}

// TestNoLeaks makes many calls, and starts and stops many servers. With ONECALL_TEST_LONG=1 it makes 100,000 calls.
func TestNoLeaks(t *testing.T) {
	calls, cycles := 2500, 5
	if os.Getenv("ONECALL_TEST_LONG") != "" {
		calls, cycles = 100_000, 50
	}
	for _, name := range []string{"stdio", "http stateless", "http sessions"} {
		t.Run(name, func(t *testing.T) {
			o := transports[name](t)
			o.MaxMessageBytes = 1 << 20
			s := openReady(t, o)
			fn := function(t, s, "shelf.get")
			call := func(n int) {
				for i := range n {
					ctx, cancel := context.WithCancel(t.Context())
					if i%50 == 0 {
						cancel()
					}
					if _, err := fn.Call(ctx, []byte(`{"name":"a"}`)); err != nil && i%50 != 0 {
						t.Fatal(err)
					}
					cancel()
				}
			}
			call(100)
			before := countResources()
			call(calls)
			awaitResources(t, before)
			cycle := func() {
				other := openReady(t, o)
				_ = other.Close()
			}
			cycle()
			before = countResources()
			for range cycles {
				cycle()
			}
			awaitResources(t, before)
		})
	}
}
