//go:build e2e && !race

package chain_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
)

// workHere is set in the environment of the process that is measured.
const workHere = "ONECALL_TEST_WORK"

// TestMemoryOfWork: the values that parallel evaluations of a chain make count while they are made. It is measured in its own process.
func TestMemoryOfWork(t *testing.T) {
	if os.Getenv(workHere) != "" {
		work(t)
		return
	}
	t.Parallel()
	inChildProcess(t, "TestMemoryOfWork", workHere+"=1")
}

// work runs a chain that may hold 128 MiB with its evaluations, and whose rounds together would make 960 MB. The race detector would
// multiply what is measured.
func work(t *testing.T) {
	debug.SetGCPercent(10) // garbage should not be measured
	e := engineOf(t, exprs.New().Functions(), chain.Options{MaxChainBytes: 64 << 20}, false)
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"text.replace","timeoutMs":280000,"forEach":"1..16","concurrency":16,"args":{"text":"`+strings.Repeat("a", 100_000)+
		`","pattern":"a","with":"`+strings.Repeat(`\\0`, 600)+`"}}],"return":"done"}`), nil)
	peak := peakMiB(t)
	t.Logf("%d MiB: %.300s", peak, a.JSON)
	if code := gjson.GetBytes(a.JSON, "error.code").Str; code != string(fault.LimitExceeded) {
		t.Errorf("got %.600s, want limit_exceeded", a.JSON)
	}
	if peak > 260 {
		t.Errorf("peak memory of %d MiB, want at most 260", peak)
	}
}

// peakMiB returns the peak memory of this process.
func peakMiB(t *testing.T) (n int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	if _, err := fmt.Sscanf(string(after), "%d kB", &n); err != nil {
		t.Fatal(err)
	}
	return n >> 10
}
