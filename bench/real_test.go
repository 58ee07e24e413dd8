package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/datasets"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/tally"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// realChain is a chain from one of the data sets.
type realChain struct{ *datasets.Chain }

// TestRealChains runs every chain of the data sets against its own recording. The chain must make the recorded calls in order, with the
// recorded arguments, and its answer must be the recorded result of the last call.
func TestRealChains(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]struct{ chains, calls int }{
		"nestful_math": {529, 2668}, "taubench": {91, 537}, "bfcl_base": {111, 681}, "bfcl_long_context": {94, 567},
		"workbench": {235, 615}, "agentdojo_user": {61, 182},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("..", "..", "shared", "data", file+".jsonl")
			chains := readChains(t, path)
			calls := 0
			for _, c := range chains {
				c.run(t)
				calls += int(gjson.GetBytes(c.Steps, "#").Int())
			}
			if len(chains) != want.chains || calls != want.calls {
				t.Errorf("got %d chains with %d calls, want %d with %d", len(chains), calls, want.chains, want.calls)
			}
		})
	}
}

// readChains reads a data set. It skips the test if the file does not exist.
func readChains(t *testing.T, path string) []realChain {
	list, err := datasets.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no data sets: %s does not exist", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	chains := make([]realChain, len(list))
	for i, c := range list {
		chains[i] = realChain{c}
	}
	return chains
}

// calls returns the calls that the chain must make, with their results.
func (c realChain) calls(t *testing.T) []tally.Call {
	t.Helper()
	calls, err := c.Calls()
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// run runs the chain against its recording, and compares its calls and its answer with the recorded ones.
func (c realChain) run(t *testing.T) {
	calls := c.calls(t)
	want := make([]string, len(calls))
	for i := range calls {
		want[i] = calls[i].Function + " " + canonical(t, calls[i].Args)
	}
	var mu sync.Mutex
	var got []string
	engine, cassette := newReplay(t, datasets.Recording(calls), func(spec *steps.Spec, next steps.Call) steps.Call {
		return func(ctx context.Context, args []byte) ([]byte, error) {
			mu.Lock()
			got = append(got, spec.Name+" "+canonical(t, args))
			mu.Unlock()
			return next(ctx, args)
		}
	})
	request := fmt.Appendf(nil, `{"name":%q,"lite":true,"steps":%s}`, c.ID, c.Steps)
	answer := engine.Run(cassette.Cursor(context.Background(), c.ID), request, nil)
	if !answer.OK {
		t.Errorf("%s failed: %s", c.ID, answer.JSON)
		return
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: got the calls\n%s\nwant\n%s", c.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	final := calls[len(calls)-1].Result
	if canonical(t, answer.JSON) != canonical(t, final) {
		t.Errorf("%s: answered %s, want %s", c.ID, answer.JSON, final)
	}
}

// newReplay returns an engine whose functions answer from a recording, and the recording as a cassette. Each run needs its own context,
// from Cassette.Cursor. The calls of the engine go through wrap, unless that is nil.
func newReplay(t testing.TB, recording []byte, wrap func(*steps.Spec, steps.Call) steps.Call) (*chain.Engine, *replay.Cassette) {
	t.Helper()
	player, err := datasets.Replay(recording, wrap)
	if err != nil {
		t.Fatal(err)
	}
	return player.Engine, player.Cassette
}

// decodeUseNumber decodes a JSON value into to. Numbers become json.Number, as written.
func decodeUseNumber(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

// canonical returns a JSON value with its keys sorted, without whitespace, and with its numbers as written.
func canonical(t testing.TB, text []byte) string {
	t.Helper()
	var value any
	if err := decodeUseNumber(text, &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}
