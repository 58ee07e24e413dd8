package chain_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// depot is a service that fails in all ways that a service can, and logs what it did.
type depot struct {
	mu     sync.Mutex
	random *rand.Rand
	faults float64           // how often a call fails
	notes  map[string]string // of what was put, by key
	times  map[string]int    // how often it was applied
}

func (s *depot) put(_ context.Context, args []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mood := 1.0
	if s.random.Float64() < s.faults {
		mood = s.random.Float64()
	}
	switch {
	case mood < 0.2:
		return nil, &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "the shop says no"}
	case mood < 0.3:
		return nil, &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the shop is closed"}
	case mood < 0.5:
		return nil, fault.New(fault.Timeout, "the line is dead before it was heard")
	}
	key := gjson.GetBytes(args, "key").Str
	s.notes[key] = gjson.GetBytes(args, "note").Raw
	s.times[key]++
	switch {
	case mood < 0.7:
		return nil, &fault.Error{Code: fault.FunctionFailed, Status: 500, Message: "the shop broke down with it in hand"}
	case mood < 0.9:
		return nil, fault.New(fault.Timeout, "the line is dead after it was heard")
	}
	return s.receipt(key), nil
}

func (s *depot) receipt(key string) []byte { return fmt.Appendf(nil, `{"of":%q,"seen":[1,2]}`, key) }

func (s *depot) count(context.Context, []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random.Float64() < s.faults/2 {
		return nil, fault.New(fault.Unavailable, "the shop does not answer")
	}
	return fmt.Appendf(nil, `{"n":%d}`, len(s.notes)), nil
}

// mortal is a driver whose process is killed: from then on it does nothing.
type mortal struct {
	journal.Driver
	mu   sync.Mutex
	left int // writes until it dies; below 0: it does not
	half bool
	kill context.CancelFunc
}

var errDead = errors.New("killed")

func (m *mortal) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.left == 0:
		return nil, errDead
	case m.left == 1:
		m.left = 0
		if m.half {
			_, _ = m.Driver.Write(ctx, list) // it is written, and nobody is told
		}
		m.kill()
		return nil, errDead
	case m.left > 0:
		m.left--
	}
	return m.Driver.Write(ctx, list)
}

// drawDelivery draws a chain whose every write has a key of its own, and gives the keys by place.
func drawDelivery(random *rand.Rand) (text string, keys map[string]string) {
	keys = map[string]string{}
	var list []string
	n := 1 + random.IntN(6)
	for i := range n {
		note := `"fixed"`
		if i > 0 {
			note = fmt.Sprintf(`"$%d"`, random.IntN(i))
		}
		key, place := fmt.Sprintf("k%d", i), strconv.Itoa(i)
		extra := ""
		if random.IntN(6) == 0 {
			extra = `,"retry":{"max":1}`
		}
		switch random.IntN(8) {
		case 6:
			keys[place+[]string{".1", ".0.1"}[i%2]] = key
			list = append(list, fmt.Sprintf(`{"fn":%q,"args":{"key":%q,"note":%s}}`, []string{"chain.deliver", "chain.hand_on"}[i%2], key, note))
		case 7:
			size := 1 + random.IntN(3)
			for e := range size {
				keys[fmt.Sprintf("%s[%d].1", place, e)] = fmt.Sprintf("%s.%d", key, e)
			}
			list = append(list, fmt.Sprintf(`{"fn":"chain.deliver","forEach":"0..%d","args":{"key":"%s.${$item}","note":%s}}`, size-1, key, note))
		case 0, 1:
			list = append(list, fmt.Sprintf(`{"fn":"shop.count"%s}`, extra))
		case 2, 3:
			keys[place] = key
			list = append(list, fmt.Sprintf(`{"fn":"shop.put","args":{"key":%q,"note":%s}}`, key, note))
		case 4:
			size := random.IntN(4)
			for e := range size {
				keys[fmt.Sprintf("%s[%d]", place, e)] = fmt.Sprintf("%s.%d", key, e)
			}
			list = append(list, fmt.Sprintf(`{"fn":"shop.put","forEach":"0..%d","concurrency":%d,"args":{"key":"%s.${$item}","note":%s}}`, size-1, 1+random.IntN(3), key, note))
			if size == 0 {
				list[i] = fmt.Sprintf(`{"fn":"shop.put","forEach":"[]","args":{"key":%q,"note":%s}}`, key, note)
			}
		default:
			keys[place+".1"] = key
			list = append(list, fmt.Sprintf(`{"args":{"note":%s},"chain":{"steps":[{"fn":"shop.count"},{"fn":"shop.put","args":{"key":%q,"note":["$input.note","$0.n"]}}]}}`, note, key))
		}
	}
	return `{"key":"the run","steps":[` + strings.Join(list, ",") + `]}`, keys
}

// deliveries is a shop, a journal of several processes one after the other, and an engine.
type deliveries struct {
	shop   *depot
	memory *journal.Memory
	engine *chain.Engine
	random *rand.Rand
	deaths int
	told   []string // what was asked and answered, for a failure
}

func newDeliveries(seed uint64, faults float64) *deliveries {
	random := rand.New(rand.NewPCG(seed, 1))
	return &deliveries{shop: &depot{random: random, faults: faults, notes: map[string]string{}, times: map[string]int{}}, memory: &journal.Memory{}, random: random}
}

// run runs a request in a process of its own, which may be killed.
func (w *deliveries) run(t *testing.T, text string) *chain.Answer {
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	driver := &mortal{Driver: w.memory, left: -1, kill: kill, half: w.random.IntN(2) == 0}
	if w.deaths > 0 && w.random.IntN(3) == 0 {
		w.deaths--
		driver.left = 1 + w.random.IntN(8)
	}
	j, err := journal.New(driver, &journal.Options{Key: []byte(strings.Repeat("k", 32))})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	w.engine = w.newEngine(t, j)
	return w.engine.Run(ctx, []byte(text), nil)
}

func (w *deliveries) newEngine(t *testing.T, j *journal.Journal) *chain.Engine {
	functions := []steps.Function{
		{Spec: steps.Spec{Name: "shop.put", EffectDeclared: true}, Call: w.shop.put},
		{Spec: steps.Spec{Name: "shop.count", Effect: steps.Read}, Call: w.shop.count},
	}
	for name, text := range map[string]string{
		"deliver": `{"params":{"key":{},"note":{}},"steps":[{"fn":"shop.count"},{"fn":"shop.put","args":{"key":"$input.key","note":["$input.note","$0.n"]}}]}`,
		"hand_on": `{"params":{"key":{},"note":{}},"steps":[{"fn":"chain.deliver","args":{"key":"$input.key","note":"$input.note"}},{"fn":"shop.count"}],"return":"$0"}`,
	} {
		saved, faults := chain.Saved(name, []byte(text), &chain.Options{})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		functions = append(functions, *saved)
	}
	registry, err := steps.NewRegistry(functions, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: registry.LinkChains(nil), Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// assume says of the calls that an answer has doubts about what the shop knows.
func (w *deliveries) assume(answer []byte, keys map[string]string) string {
	var said []string
	gjson.GetBytes(answer, "error.available").ForEach(func(_, place gjson.Result) bool {
		what := `"not_sent"`
		if key := keys[place.Str]; w.shop.times[key] > 0 {
			what = `{"result":` + string(w.shop.receipt(key)) + `}`
		}
		said = append(said, fmt.Sprintf("%q:%s", place.Str, what))
		return true
	})
	return "{" + strings.Join(said, ",") + "}"
}

// TestResumeModel runs drawn chains against a service that fails in all ways, in processes that are killed, and resumes them until they
// are through: then the service is as it is after a run without faults, and nothing was done twice.
func TestResumeModel(t *testing.T) {
	t.Parallel()
	runs := 300
	if os.Getenv("ONECALL_TEST_CI") != "" {
		runs = 2000
	}
	if n, err := strconv.Atoi(os.Getenv("ONECALL_TEST_RESUMES")); err == nil {
		runs = n
	}
	first := uint64(0)
	if n, err := strconv.ParseUint(os.Getenv("ONECALL_TEST_SEED"), 10, 64); err == nil {
		first = n
	}
	for seed := first; seed < first+uint64(runs); seed++ {
		resumeModel(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func resumeModel(t *testing.T, seed uint64) {
	text, keys := drawDelivery(rand.New(rand.NewPCG(seed, 2)))
	calm := newDeliveries(seed, 0)
	want := calm.run(t, text)
	if !want.OK {
		t.Fatalf("%s: without faults: %s", text, want.JSON)
	}
	w := newDeliveries(seed, 0.5)
	w.deaths = 4
	request := text
	for round := 0; ; round++ {
		a := w.run(t, request)
		w.told = append(w.told, fmt.Sprintf("%s\n  %s\n  %v", request, a.JSON, w.shop.times))
		if round > 60 {
			w.shop.faults = 0
		}
		if a.OK {
			break
		}
		if round == 200 {
			t.Fatalf("%s: it does not end: %s", text, a.JSON)
		}
		request = text
		code, resume := gjson.GetBytes(a.JSON, "error.code").Str, gjson.GetBytes(a.JSON, "resume").Str
		switch {
		case code == string(fault.ResumeConflict):
			request = fmt.Sprintf(`{"resume":%q,"assume":%s}`, resume, w.assume(a.JSON, keys))
		case resume != "" && w.random.IntN(2) == 0:
			request = fmt.Sprintf(`{"resume":%q}`, resume)
		}
	}
	for place, key := range keys {
		if w.shop.times[key] != 1 || w.shop.notes[key] != calm.shop.notes[key] {
			t.Errorf("%s: %s was put %d times with %s, want once with %s", text, place, w.shop.times[key], w.shop.notes[key], calm.shop.notes[key])
		}
	}
	if t.Failed() {
		t.Log(strings.Join(w.told, "\n"))
	}
	if len(w.shop.notes) != len(calm.shop.notes) {
		t.Errorf("%s: the shop has %v, want %v", text, w.shop.notes, calm.shop.notes)
	}
}
