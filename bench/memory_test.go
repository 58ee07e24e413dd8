package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

const asPagingProcess = "ONECALL_BENCH_PAGING"

// TestMain lets the test binary be the process whose memory TestPagingMemory and TestBlockMemory look at, and the MCP server that the
// benchmarks call.
func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		serveStdio()
		os.Exit(0)
	}
	if os.Getenv(asPagingProcess) != "" {
		if err := pageLargeResult(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if how := os.Getenv(asBlockProcess); how != "" {
		if err := passBlock(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const largeItems = 1_000_000 // items of about 50 bytes each

// TestPagingMemory stores a result of 50 MB and pages through it in a separate process, whose peak memory must stay below 2.5 times the
// result.
func TestPagingMemory(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the system has no /proc, from which the peak memory is read")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), asPagingProcess+"=1")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var size, peak int64
	if _, err := fmt.Sscan(string(out), &size, &peak); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ratio := float64(peak) / float64(size)
	t.Logf("%d MB stored and paged, peak %d MB, ratio %.2f", size>>20, peak>>20, ratio)
	if !raceEnabled && ratio > 2.5 {
		t.Errorf("peak memory is %.2f times the result, want at most 2.5", ratio)
	}
}

// pageLargeResult prints the size of the result and the process's peak memory, in bytes.
func pageLargeResult() error {
	document := make([]byte, 0, 60<<20)
	document = append(document, '[')
	for i := range largeItems {
		document = fmt.Appendf(document, `{"id":%07d1,"name":"item number %07d","ok":true},`, i+1_000_000, i)
	}
	document = append(document[:len(document)-1], ']')
	registry, err := steps.NewRegistry([]steps.Function{{
		Spec: steps.Spec{Name: "bench.large", Description: "A large result.", Effect: steps.Read, EffectDeclared: true},
		Call: func(context.Context, []byte) ([]byte, error) { return document, nil },
	}}, nil)
	if err != nil {
		return err
	}
	store, err := memstore.New(nil)
	if err != nil {
		return err
	}
	results, err := budget.NewResults(store, nil)
	if err != nil {
		return err
	}
	engine, err := chain.New(&chain.Options{Functions: registry, Results: results, MaxTotalTokens: 2000})
	if err != nil {
		return err
	}
	answer := engine.Run(context.Background(), []byte(`{"steps":[{"fn":"bench.large"}]}`), nil)
	token := gjson.GetBytes(answer.JSON, "result.continuation_token").Str
	for _, page := range []int{1, largeItems / 40, largeItems / 20} {
		answer = engine.Run(context.Background(), fmt.Appendf(nil, `{"continuation_token":%q,"mode":"paginated","page":%d}`, token, page), nil)
		if got := gjson.GetBytes(answer.JSON, "result.items.#").Int(); got != 20 {
			return fmt.Errorf("page %d has %d items: %s", page, got, answer.JSON)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	kilobytes, err := strconv.ParseInt(strings.Fields(string(after))[0], 10, 64)
	if err != nil {
		return err
	}
	fmt.Println(len(document), kilobytes<<10)
	return nil
}
