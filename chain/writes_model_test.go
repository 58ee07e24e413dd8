package chain_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// storeLog is a store that records what it did, by the place in the chain, which the caller gives as key.
type storeLog struct {
	mu   sync.Mutex
	done map[string]map[fault.Outcome]int
}

func (l *storeLog) put(_ context.Context, args []byte) ([]byte, error) {
	key, what := gjson.GetBytes(args, "key").Str, fault.Outcome(gjson.GetBytes(args, "what").Str)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done[key] == nil {
		l.done[key] = map[fault.Outcome]int{}
	}
	switch what {
	case "garbled":
		l.done[key][fault.Applied]++
		return []byte("no JSON"), nil
	case "panics":
		l.done[key][fault.SentUnknown]++
		panic("the store is broken")
	}
	l.done[key][what]++
	switch what {
	case fault.Failed:
		return nil, fault.New(fault.FunctionFailed, "the store says no")
	case fault.NotSent:
		return nil, &fault.Error{Code: fault.Unavailable, Message: "the store is away", Outcome: fault.NotSent}
	case fault.SentUnknown:
		return nil, fault.New(fault.Timeout, "the store does not answer")
	}
	return fmt.Appendf(nil, `{"rounds":%d}`, l.done[key][fault.Applied]), nil
}

// drawnChain is a chain that writes to a storeLog, and the sizes of its forEach steps by their places.
type drawnChain struct {
	t     *rapid.T
	sizes map[string]int
}

// steps draws the steps of a level, whose writes have keys that begin with prefix.
func (d *drawnChain) steps(prefix string, depth int) string {
	var list []string
	for i := range rapid.IntRange(1, 4).Draw(d.t, "steps") {
		list = append(list, d.step(fmt.Sprintf("%s%d", prefix, i), depth))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func (d *drawnChain) step(position string, depth int) string {
	extra, isForEach := "", rapid.IntRange(0, 2).Draw(d.t, "each") == 0
	what := rapid.SampledFrom([]string{"applied", "applied", "applied", "applied", "failed", "not_sent", "sent_unknown", "garbled", "panics"})
	assumed := `"` + what.Draw(d.t, "what") + `"`
	if isForEach {
		list := rapid.SliceOfN(what, 0, 12).Draw(d.t, "elements")
		d.sizes[position] = len(list)
		extra = fmt.Sprintf(`,"forEach":"['%s']","concurrency":%d`, strings.Join(list, "','"), rapid.IntRange(1, 4).Draw(d.t, "concurrency"))
		if len(list) == 0 {
			extra = `,"forEach":"[]"`
		}
		position, assumed = position+"[${$index}]", `"$item"`
	}
	kind := rapid.IntRange(0, 9).Draw(d.t, "kind")
	switch {
	case kind == 0:
		return `{"fn":"test.get","args":{"value":1}}`
	case kind == 1:
		return `{"fn":"test.fail"}`
	case kind <= 3 && depth < 2:
		return fmt.Sprintf(`{"args":{"at":%q},"chain":{"steps":%s}%s}`, position, d.steps("${$input.at}.", depth+1), extra)
	case kind == 4:
		extra += `,"select":"$result.rounds.none"`
	case kind == 5:
		extra += `,"orElse":0`
	case kind == 6:
		extra += `,"repeat":{"until":"$result.rounds >= 3","max":2}`
	case kind == 7 && isForEach:
		assumed = `"$item.none"`
	}
	return fmt.Sprintf(`{"fn":"store.put","args":{"key":%q,"what":%s}%s}`, position, assumed, extra)
}

var element = regexp.MustCompile(`^(.*)\[([\d,-]+)\](.*)$`)

// positionsOf returns the places that an entry of writes names.
func positionsOf(e gjson.Result) (positions []string) {
	if at := e.Get("at"); at.Exists() { // an earlier call of the run, at its earlier place
		return []string{at.Str}
	}
	position := e.Get("in").Str
	if position == "" {
		position = e.Get("step").Raw
	}
	prefix, ranges, suffix := position, e.Get("elements").Str, ""
	if ranges == "" {
		if m := element.FindStringSubmatch(position); m != nil {
			prefix, ranges, suffix = m[1], m[2], m[3]
		} else {
			return []string{position}
		}
	}
	for segment := range strings.SplitSeq(ranges, ",") {
		from, to, isRange := strings.Cut(segment, "-")
		if !isRange {
			to = from
		}
		first, _ := strconv.Atoi(from)
		last, _ := strconv.Atoi(to)
		for i := first; i <= last; i++ {
			positions = append(positions, fmt.Sprintf("%s[%d]%s", prefix, i, suffix))
		}
	}
	return positions
}

// TestWritesAreReported: for random chains with failing writes, a failure reports each write as the store's own log does, and each element
// of a forEach that began. Within a small budget it reports their number.
func TestWritesAreReported(t *testing.T) {
	t.Parallel()
	published := compileSchema(t, chain.AnswerSchema(), "")
	counter := newCounter(t, 0)
	rapid.Check(t, func(rt *rapid.T) {
		store := &storeLog{done: map[string]map[fault.Outcome]int{}}
		put := steps.Function{Spec: steps.Spec{Name: "store.put", EffectDeclared: true}, Call: store.put}
		e := engineOf(t, append((&world{}).functions(), put), chain.Options{}, true)
		d := &drawnChain{t: rt, sizes: map[string]int{}}
		limits := ""
		if rapid.IntRange(0, 3).Draw(rt, "limited") == 0 {
			limits = fmt.Sprintf(`,"maxCalls":%d`, rapid.IntRange(1, 12).Draw(rt, "maxCalls"))
		}
		maximum := rapid.SampledFrom([]int{150, 200, 300, 100_000}).Draw(rt, "budget")
		request := fmt.Sprintf(`{"lite":%t,"onError":%q,"budget":{"maxTotalTokens":%d%s},"steps":%s}`, rapid.Bool().Draw(rt, "lite"),
			rapid.SampledFrom([]string{"stop", "continue"}).Draw(rt, "onError"), maximum, limits, d.steps("", 0))
		a := e.Run(t.Context(), []byte(request), nil)
		if n := counter.Count(a.JSON, -1); n > maximum {
			rt.Fatalf("the answer costs %d tokens, want at most %d: %s", n, maximum, a.JSON)
		}
		if a.OK {
			return
		}
		validate(t, published, a.JSON)
		if a.Error.Code == fault.Compile && limits != "" && len(a.Faults) == 1 && a.Faults[0].Code == fault.LimitExceeded {
			if len(store.done) > 0 {
				rt.Fatalf("refused for its calls, the chain made %v: %s", store.done, a.JSON)
			}
			return
		}
		if a.Error.Code == fault.Compile {
			rt.Fatalf("%s\ndoes not compile: %s", request, a.JSON)
		}
		reports := gjson.GetBytes(a.JSON, "writes").Array()
		sameTotals(rt, a.JSON, store.done, reports)
		if len(reports) == 0 || reports[len(reports)-1].Get("step").Exists() {
			samePositions(rt, a.JSON, store.done, reports)
			allElements(rt, a.JSON, d.sizes, reports)
		}
	})
}

// callsOf returns the number of calls that an entry stands for.
func callsOf(e gjson.Result) int {
	switch {
	case e.Get("count").Exists():
		return int(e.Get("count").Int())
	case e.Get("step").Exists(), e.Get("at").Exists():
		return len(positionsOf(e))
	}
	return 0
}

func sameTotals(rt *rapid.T, answer []byte, done map[string]map[fault.Outcome]int, reports []gjson.Result) {
	want, got := map[fault.Outcome]int{}, map[fault.Outcome]int{}
	for _, outcomes := range done {
		for o, n := range outcomes {
			want[o] += n
		}
	}
	for _, e := range reports {
		got[fault.Outcome(e.Get("outcome").Str)] += callsOf(e)
	}
	for _, o := range []fault.Outcome{fault.Applied, fault.Failed, fault.SentUnknown} {
		if got[o] != want[o] {
			rt.Fatalf("%d calls reported as %s, the log has %d: %s", got[o], o, want[o], answer)
		}
	}
	if got[fault.NotSent] < want[fault.NotSent] {
		rt.Fatalf("%d calls reported as not sent, the log has %d: %s", got[fault.NotSent], want[fault.NotSent], answer)
	}
}

func samePositions(rt *rapid.T, answer []byte, done map[string]map[fault.Outcome]int, reports []gjson.Result) {
	seen := map[string]bool{}
	for _, e := range reports {
		o, sum := fault.Outcome(e.Get("outcome").Str), 0
		for _, position := range positionsOf(e) {
			seen[position+" "+string(o)] = true
			n := done[position][o]
			if n == 0 && o != fault.NotSent {
				rt.Fatalf("%s is reported as %s, which is false: %s", position, o, answer)
			}
			sum += n
		}
		if o != fault.NotSent && sum != callsOf(e) {
			rt.Fatalf("%d calls reported by %s, want %d as in the log: %s", callsOf(e), e.Raw, sum, answer)
		}
	}
	for position, outcomes := range done {
		for o := range outcomes {
			if !seen[position+" "+string(o)] {
				rt.Fatalf("%s is %s, which is not reported: %s", position, o, answer)
			}
		}
	}
}

// allElements checks that a forEach of the outermost chain is reported completely or not at all.
func allElements(rt *rapid.T, answer []byte, sizes map[string]int, reports []gjson.Result) {
	seen := map[string]map[string]bool{}
	for _, e := range reports {
		for _, position := range positionsOf(e) {
			if step, rest, isElement := strings.Cut(position, "["); isElement && !strings.Contains(rest, ".") {
				if seen[step] == nil {
					seen[step] = map[string]bool{}
				}
				seen[step][rest] = true
			}
		}
	}
	for step, elements := range seen {
		if n, top := sizes[step]; top && callsFunction(reports, step) && len(elements) != n {
			rt.Fatalf("%d elements reported, want all %d of step %s: %s", len(elements), n, step, answer)
		}
	}
}

// callsFunction reports whether the step calls a function. Of an inline chain, the writes in it are reported instead.
func callsFunction(reports []gjson.Result, step string) bool {
	for _, e := range reports {
		if e.Get("step").Raw == step && !e.Get("fn").Exists() || strings.HasPrefix(e.Get("in").Str, step+"[") {
			return false
		}
	}
	return true
}
