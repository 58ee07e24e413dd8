package chain_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
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

// killableDriver is a driver whose process is killed after some writes. It then writes nothing more.
type killableDriver struct {
	journal.Driver
	mu       sync.Mutex
	left     int  // writes until the kill, which the last of them triggers; negative: there is no kill
	lastKept bool // the last write is carried out, although it returns an error
	kill     context.CancelFunc
}

var errDead = errors.New("killed")

func (m *killableDriver) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.left == 0:
		return nil, errDead
	case m.left == 1:
		m.left = 0
		if m.lastKept {
			_, _ = m.Driver.Write(ctx, list) // written, but not confirmed
		}
		m.kill()
		return nil, errDead
	case m.left > 0:
		m.left--
	}
	return m.Driver.Write(ctx, list)
}

// resumeTest is a test of one run: the shop, the files and the state that its calls reach, the journal that one process after another uses,
// and its requests so far.
type resumeTest struct {
	shop       *itemShop
	folder     string                // the files
	calls      map[string]steps.Call // what chains may call
	closeFiles func() error          // ends the source of files
	memory     *journal.Memory
	current    *journal.Journal // the journal in the process of the last request
	reader     *journal.Journal // the journal in another process, which only reads
	random     *rand.Rand
	drawn      *drawnDelivery
	killsLeft  int      // kills that are still allowed
	wasKilled  bool     // a process was killed
	id         string   // the id of the run; "": not known yet
	changed    bool     // the last request changed the chain
	requests   []string // requests and answers, to print after a failure
}

func newResumeTest(t *testing.T, seed uint64, faults float64, drawn *drawnDelivery) *resumeTest {
	random := rand.New(rand.NewPCG(seed, 1))
	w := &resumeTest{shop: newShop(random, 0), folder: t.TempDir(), calls: map[string]steps.Call{}, memory: &journal.Memory{}, random: random,
		drawn: drawn}
	w.reader = w.journal(t, w.memory)
	for _, f := range slices.Concat(w.shop.functions(), w.keepers()) {
		w.calls[f.Name] = f.Call
	}
	w.prepare(t)
	w.shop.faults = faults
	return w
}

// close closes what the test has opened.
func (w *resumeTest) close(t *testing.T) {
	t.Helper()
	must(t, w.closeFiles())
	must(t, w.reader.Close())
}

var modelKey = []byte(strings.Repeat("k", 32))

func (w *resumeTest) journal(t *testing.T, d journal.Driver) *journal.Journal {
	j, err := journal.New(d, &journal.Options{Key: modelKey})
	must(t, err)
	return j
}

// run runs a request in its own process, which may be killed.
func (w *resumeTest) run(t *testing.T, text string) gjson.Result {
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	driver := &killableDriver{Driver: w.memory, left: -1, kill: kill, lastKept: w.random.IntN(2) == 0}
	if w.killsLeft > 0 && w.random.IntN(3) == 0 {
		w.killsLeft--
		driver.left = 1 + w.random.IntN(8)
	}
	w.changed = strings.Contains(text, `"also"`) // the argument that approve adds to change a step
	caller := &chain.Caller{}
	if !w.changed && (w.shop.faults == 0 || w.random.IntN(4) == 0) { // a person can be asked
		caller.Approve = w.approveAtRandom
	}
	a := w.process(ctx, t, driver, text, caller)
	w.wasKilled = w.wasKilled || driver.left == 0
	w.requests = append(w.requests, fmt.Sprintf("%s\n  %s\n  %v died: %t", text, a.JSON, w.shop.items, driver.left == 0))
	answer := gjson.ParseBytes(a.JSON)
	w.check(t, answer)
	return answer
}

// process carries out a request in a process of its own.
func (w *resumeTest) process(ctx context.Context, t *testing.T, d journal.Driver, text string, caller *chain.Caller) *chain.Answer {
	t.Helper()
	w.current = w.journal(t, d)
	defer w.current.Close()
	engine, err := chain.New(&chain.Options{Functions: modelRegistry(), Journal: w.current})
	must(t, err)
	return engine.Run(context.WithValue(ctx, resumeTestKey{}, w), []byte(text), caller)
}

func (w *resumeTest) approveAtRandom(_ context.Context, calls []chain.ApprovalCall) (yes bool, err error) {
	w.shop.mu.Lock()
	defer w.shop.mu.Unlock()
	if yes = w.shop.faults == 0 || w.random.IntN(3) > 0; yes {
		for i := range calls {
			w.shop.approved[string(calls[i].Args)]++
		}
	}
	return yes, nil
}

// approveDenied approves the calls that approveAtRandom has denied, as a person may later: no resume asks about them again.
func (w *resumeTest) approveDenied(t *testing.T) {
	calls, err := chain.Waiting(t.Context(), w.reader, w.find(t))
	if err != nil || decide(t.Context(), w.reader, w.find(t), true) != nil {
		return // the run waits for nothing, or a killed process seems to have it still
	}
	w.shop.mu.Lock()
	defer w.shop.mu.Unlock()
	for _, call := range calls {
		w.shop.approved[call.Get("args").Raw]++
	}
}

// find returns the run's id, found by its key as its caller would.
func (w *resumeTest) find(t *testing.T) string {
	if w.id == "" {
		w.id, _, _ = w.memory.Find(t.Context(), "", "the run")
	}
	return w.id
}

// past returns the history of the run.
func (w *resumeTest) past(t *testing.T) *journal.Past {
	past, err := w.reader.Read(t.Context(), w.find(t), nil)
	if err != nil {
		return nil // it has not begun
	}
	return past
}

// outcomes has the number of calls at one position, by outcome. A position is a call's place in the chain, such as 2[0].1.
type outcomes map[fault.Outcome]int

// check checks that the writes in an answer and in the journal agree with the shop.
func (w *resumeTest) check(t *testing.T, answer gjson.Result) {
	reported := map[string]outcomes{}
	for _, e := range answer.Get("writes").Array() {
		if at := e.Get("at"); at.Exists() && e.Get("fn").Str == w.drawn.undoer(at.Str) {
			continue // the undo of a call, which has an entry of its own
		}
		positions := positionsOf(e)
		for _, position := range positions {
			if reported[position] == nil {
				reported[position] = outcomes{}
			}
			reported[position][fault.Outcome(e.Get("outcome").Str)] += callsOf(e) / len(positions)
		}
	}
	if !w.changed { // otherwise the positions belong to other calls
		for position, o := range reported {
			w.wantOutcomes(t, "the answer", position, o)
		}
	}
	past := w.past(t)
	if past == nil {
		return
	}
	journaled := map[string]outcomes{}
	for position := range w.drawn.keys {
		journaled[position] = outcomes{}
	}
	for _, c := range past.Calls() {
		if c.Writes() && c.Undoes == 0 {
			journaled[c.StepPath][c.KnownOutcome()]++
		}
	}
	for position, o := range journaled {
		w.wantOutcomes(t, "the journal", position, o)
	}
	for _, offense := range w.shop.offenses {
		t.Error(offense)
	}
}

// wantOutcomes checks that the outcomes reported for a position agree with the shop. The journal does not know the outcome of calls that
// were under way when their process was killed.
func (w *resumeTest) wantOutcomes(t *testing.T, source, position string, o outcomes) {
	key, drawn := w.drawn.keys[position]
	if !drawn {
		// The position may be an element that was not sent: the answer then reports it instead of the puts in its chain.
		puts := 0
		for inner := range w.drawn.keys {
			if strings.HasPrefix(inner, position+".") && len(o) == 1 && o[fault.NotSent] == 1 {
				w.wantOutcomes(t, source, inner, o)
				puts++
			}
		}
		if puts == 0 {
			t.Errorf("%s reports writes at %s, which puts nothing: %v", source, position, o)
		}
		return
	}
	present, unknown := w.stateAt(t, key)
	applied, reportedUnknown := o[fault.Applied], o[fault.SentUnknown]
	switch {
	case present < applied, present > applied+reportedUnknown:
		t.Errorf("%s reports %v at %s, want the %d items of the shop", source, o, position, present)
	case reportedUnknown < unknown, reportedUnknown > unknown && !w.wasKilled:
		t.Errorf("%s reports %v at %s, want the %d unknown outcomes of the shop", source, o, position, unknown)
	}
}

// TestResumeModel runs random chains against a service that fails in every way, and against files and state, in processes that may be
// killed. Some calls return blocks, whose bytes later calls get. It resumes each chain until it succeeds: everything must then be as after
// a run without faults, with nothing done twice. Or it undoes the chain: everything must then be as before, except for what the answers
// report as left. Every report of writes must be true.
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
	ends := map[string]int{}
	for seed := first; seed < first+uint64(runs); seed++ {
		w := runModel(t, seed, ends)
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, strings.Join(w.requests, "\n"))
		}
	}
	t.Log(ends)
}

func runModel(t *testing.T, seed uint64, ends map[string]int) *resumeTest {
	drawn := drawDelivery(rand.New(rand.NewPCG(seed, 2)))
	faultless := newResumeTest(t, seed, 0, drawn)
	defer faultless.close(t)
	if a := faultless.run(t, drawn.text); !a.Get("ok").Bool() {
		t.Fatalf("%s fails without faults: %s", drawn.text, a.Raw)
	}
	w := newResumeTest(t, seed, 0.5, drawn)
	w.killsLeft = []int{0, 4}[w.random.IntN(2)]
	defer w.close(t)
	undo := w.random.IntN(4) == 0 // whether the run is undone in some round
	request := drawn.text
	for round := 0; ; round++ {
		a := w.run(t, request)
		switch code := a.Get("error.code").Str; {
		case t.Failed():
			return w
		case round == 200:
			t.Errorf("the run did not end within 200 rounds")
			return w
		case a.Get("ok").Bool():
			ends["succeeded"]++
			w.wantSame(t, faultless)
			return w
		// A run that was undone cannot be resumed: token_expired.
		case code == string(fault.TokenExpired) || drawn.undoes && w.past(t) != nil && w.past(t).Row.Status == journal.Undone:
			ends["undone by onError"]++
			return w // check has compared the answer with what the undo left
		}
		if code := a.Get("error.code").Str; code == string(fault.Denied) {
			w.approveDenied(t)
		}
		if round > 60 { // let the run end
			w.shop.faults = 0
		}
		if undo && w.random.IntN(3) == 0 && w.find(t) != "" {
			ends["undone"]++
			w.undo(t)
			return w
		}
		if request = w.next(t, a); request == "" {
			ends["in doubt"]++
			return w
		}
	}
}

// wantSame checks that the shop is in the same state as after a run without faults.
func (w *resumeTest) wantSame(t *testing.T, faultless *resumeTest) {
	for _, key := range w.drawn.keys {
		if got, want := w.holds(t, key), faultless.holds(t, key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	if len(w.shop.items) != len(faultless.shop.items) {
		t.Errorf("the shop has %v, want %v", w.shop.items, faultless.shop.items)
	}
	if got, want := treeOf(t, w.folder), treeOf(t, faultless.folder); !maps.Equal(got, want) {
		t.Errorf("the files are %q, want %q", got, want)
	}
}

// undo undoes the run until nothing more can be undone. What is left in the shop must be reported.
func (w *resumeTest) undo(t *testing.T) {
	request := fmt.Sprintf(`{"resume":%q,"undo":true}`, w.find(t))
	for round := 0; ; round++ {
		a := w.run(t, request)
		if t.Failed() {
			return
		}
		if round > 10 { // from now on everything works, so that the undo ends
			w.shop.faults, w.killsLeft = 0, 0
		}
		var doubtful []string
		if past := w.past(t); past != nil {
			for _, c := range past.Calls() {
				if c.Writes() && c.Outcome == fault.SentUnknown && len(w.known(t, c.StepPath)) == 1 {
					doubtful = append(doubtful, c.StepPath)
				}
			}
		}
		request = fmt.Sprintf(`{"resume":%q,"undo":true,"assume":%s}`, w.find(t), w.assume(t, doubtful))
		if round > 14 && len(doubtful) == 0 {
			w.checkLeft(t, a)
			return
		}
		if round == 60 {
			t.Errorf("the undo did not end within 60 rounds")
			return
		}
	}
}

// checkLeft checks that the last undo reports everything that is left, and left nothing that it could undo.
func (w *resumeTest) checkLeft(t *testing.T, answer gjson.Result) {
	left := map[string]int{}
	for _, c := range answer.Get("result.left").Array() {
		left[c.Get("at").Str]++
	}
	for position, key := range w.drawn.keys {
		present, _ := w.stateAt(t, key)
		// If several outcomes are unknown, the undo cannot tell what is left, and may report too much.
		mayReportMore := func() bool { return len(w.known(t, position)) >= 2 }
		if present > left[position] || present < left[position] && !mayReportMore() {
			t.Errorf("the undo reports %[2]d items left at %[1]s, want %[3]d as in the shop", position, left[position], present)
		}
	}
	for _, c := range w.past(t).Calls() {
		_, kept := w.drawn.undoers[c.StepPath] // of what state and files keep, the source itself says how it is undone
		undoable := c.Undo != nil || kept && c.Undoes == 0
		if undoable && c.Outcome == fault.Applied && !c.Assumed && len(w.known(t, c.StepPath)) < 2 {
			t.Errorf("the undo left the call at %s, which can be undone", c.StepPath)
		}
	}
}
