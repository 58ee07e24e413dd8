package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// realChain is a chain of the data sets, with what each call must be given and what it answered.
type realChain struct {
	ID           string            `json:"id"`
	Steps        json.RawMessage   `json:"steps"`
	LiteralArgs  []json.RawMessage `json:"literal_args"`
	Results      []json.RawMessage `json:"results"`
	Intermediate []json.RawMessage `json:"intermediate"` // NESTFUL: the values; the results are {"result":value}
}

// TestRealChains runs every recorded chain of the data sets against its own recording: each call must arrive with the
// recorded arguments, in order, and the answer be the recorded final value.
func TestRealChains(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]struct{ chains, calls int }{
		"nestful_math": {529, 2668}, "taubench": {91, 537}, "bfcl_base": {111, 681}, "bfcl_long_context": {94, 567},
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
				t.Errorf("%d chains of %d calls, want %v", len(chains), calls, want)
			}
		})
	}
}

func readChains(t *testing.T, path string) []*realChain {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		t.Skipf("the data sets are not here (%s)", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	var chains []*realChain
	for lines.Scan() {
		c := &realChain{}
		if err := json.Unmarshal(lines.Bytes(), c); err != nil {
			t.Fatal(err)
		}
		chains = append(chains, c)
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return chains
}

// run replays one chain.
func (c *realChain) run(t *testing.T) {
	var written []struct {
		Fn   string
		Args map[string]any
	}
	if err := decodeNumbers(c.Steps, &written); err != nil {
		t.Fatal(err)
	}
	var tape bytes.Buffer
	want := make([]string, len(written))
	for i, s := range written {
		args := c.args(t, i, s.Args)
		want[i] = s.Fn + " " + canonical(t, args)
		fmt.Fprintf(&tape, "{\"fn\":%q,\"args\":%s,\"result\":%s}\n", s.Fn, args, c.result(i))
	}
	var mu sync.Mutex
	var got []string
	engine, cassette := newReplay(t, tape.Bytes(), func(spec *steps.Spec, next steps.Call) steps.Call {
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
		t.Errorf("%s: %s", c.ID, answer.JSON)
		return
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: the calls were\n%s\nwant\n%s", c.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	final := c.result(len(written) - 1)
	if canonical(t, answer.JSON) != canonical(t, final) {
		t.Errorf("%s: answered %s, want %s", c.ID, answer.JSON, final)
	}
}

// args are the arguments that call i must arrive with. NESTFUL does not record them: there each reference is a whole
// `$N.result`.
func (c *realChain) args(t *testing.T, i int, written map[string]any) json.RawMessage {
	if c.LiteralArgs != nil {
		return c.LiteralArgs[i]
	}
	for key, value := range written {
		text, _ := value.(string)
		if n, ok := strings.CutSuffix(strings.TrimPrefix(text, "$"), ".result"); ok && n != text {
			step, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			written[key] = c.Intermediate[step]
		}
	}
	args, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

func (c *realChain) result(i int) json.RawMessage {
	if c.Results != nil {
		return c.Results[i]
	}
	return fmt.Appendf(nil, `{"result":%s}`, c.Intermediate[i])
}

// newReplay makes an engine that answers from a recording, whose calls go through wrap.
func newReplay(t testing.TB, tape []byte, wrap func(*steps.Spec, steps.Call) steps.Call) (*chain.Engine, *replay.Cassette) {
	t.Helper()
	cassette, err := replay.Read(bytes.NewReader(tape), "recording")
	if err != nil {
		t.Fatal(err)
	}
	none, err := steps.NewRegistry(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := cassette.Registry(none)
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		registry = registry.Wrap(wrap)
	}
	engine, err := chain.New(&chain.Options{Functions: registry})
	if err != nil {
		t.Fatal(err)
	}
	return engine, cassette
}

func decodeNumbers(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

// canonical spells a JSON value with sorted keys and its numbers as they are.
func canonical(t testing.TB, text []byte) string {
	t.Helper()
	var value any
	if err := decodeNumbers(text, &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	spelled, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(spelled)
}
