package chain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// bank is an engine whose transfers need approval, and a person who is asked.
type bank struct {
	t       testing.TB
	engine  *chain.Engine
	journal *journal.Journal

	mu    sync.Mutex
	sent  []string // the amounts of the transfers that were made
	asked [][]chain.ApprovalCall
	says  func() (bool, error) // what the person answers; nil: nobody can be asked
}

const remember = 10 * time.Minute

func newBank(t testing.TB, d journal.Driver, scope string) *bank {
	t.Helper()
	b := &bank{t: t}
	if d == nil {
		d = &journal.Memory{}
	}
	var err error
	b.journal, err = journal.New(d, &journal.Options{Remember: remember, Shared: "anyone", Key: []byte(strings.Repeat("k", 32))})
	must(t, err)
	t.Cleanup(func() { b.journal.Close() })
	transfer := func(_ context.Context, args []byte) ([]byte, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sent = append(b.sent, gjson.GetBytes(args, "amount").Raw)
		return []byte(`{"done":true}`), nil
	}
	schema := json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"},"amount":{"type":"number"},"note":{"type":"string"}}}`)
	saved, faults := chain.Saved("pay", []byte(`{"params":{"sum":{}},"steps":[{"fn":"bank.transfer","args":{"amount":"$input.sum","to":"acme"}}]}`),
		&chain.Options{})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	registry := newRegistry(t, []steps.Function{
		{Spec: steps.Spec{Name: "bank.transfer", EffectDeclared: true, Approve: steps.ApproveWrite, Input: schema,
			Aliases: map[string]string{"payee": "to"}, Undo: &steps.Undo{Function: "bank.recall", Args: []byte(`{}`)}}, Call: transfer},
		{Spec: steps.Spec{Name: "bank.recall", EffectDeclared: true}, Call: transfer}, *saved,
	}).LinkChains(nil)
	b.engine = engineOn(t, registry, chain.Options{Journal: b.journal, Scope: scope}, false)
	return b
}

// caller returns a caller for whom the person is asked.
func (b *bank) caller(id string) *chain.Caller {
	c := &chain.Caller{ID: id}
	if b.says != nil {
		c.Approve = func(_ context.Context, calls []chain.ApprovalCall) (bool, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.asked = append(b.asked, calls)
			return b.says()
		}
	}
	return c
}

// wants sends a request, which must fail with the code; "": it must succeed. It returns the answer, and checks how many questions were asked.
func (b *bank) wants(id string, code fault.Code, questions int, request string) gjson.Result {
	b.t.Helper()
	return b.wantsIn(b.t.Context(), id, code, questions, request)
}

func (b *bank) wantsIn(ctx context.Context, id string, code fault.Code, questions int, request string) gjson.Result {
	b.t.Helper()
	b.asked = nil
	a := b.engine.Run(ctx, []byte(request), b.caller(id))
	if codeOf(a) != code || len(b.asked) != questions {
		b.t.Fatalf("%s\nof %s: %q with %d questions, want %q with %d: %s", request, id, codeOf(a), len(b.asked), code, questions, a.JSON)
	}
	return gjson.ParseBytes(a.JSON)
}

func refusing() (bool, error) { return false, nil }

const transfer = `{"steps":[{"fn":"bank.transfer","args":{"amount":820000,"to":"acme"}}]}`

// TestChangedAmount: an approval of one amount is none of another, in the run that was approved and in any other; and what was denied is not
// asked about again.
func TestChangedAmount(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil, "")
	waits := b.wants("agent", fault.ApprovalRequired, 0, strings.Replace(transfer, "820000", "82000", 1))
	run, approve := waits.Get("resume").Str, waits.Get("approve").Str
	changed := fmt.Sprintf(`{"resume":%q,"approve":%q,"replace":{"0":{"fn":"bank.transfer","args":{"amount":820000,"to":"acme"}}}}`, run, approve)
	if again := b.wants("agent", fault.ApprovalRequired, 0, changed); again.Get("error.calls.0.args.amount").Raw != "820000" || len(b.sent) > 0 {
		t.Fatalf("sent %v, answer %s; want a question about the other amount", b.sent, again)
	}
	_, err := chain.Decide(t.Context(), b.journal, run, &chain.Ruling{Deny: []string{"0"}, By: "ann", Reason: "one zero too many"})
	must(t, err)
	denied := b.wants("agent", fault.Denied, 0, transfer).Get("error.message").Str
	if !strings.Contains(denied, "by ann at ") || !strings.HasSuffix(denied, ": one zero too many") {
		t.Errorf("%q does not say who denied it, when and why", denied)
	}
	b.wants("agent", fault.ApprovalRequired, 0, strings.Replace(transfer, "820000", "82000", 1))
	if len(b.sent) > 0 {
		t.Errorf("sent %v, want nothing", b.sent)
	}
}

// TestDenialHolds: a call that the caller's user has declined is denied at once, however it is spelled and whichever tool sends it, until
// it is forgotten. Any other call asks, and so does the same one of another caller or in another scope.
func TestDenialHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		database := &shared{Driver: &journal.Memory{}}
		b, elsewhere := newBank(t, database, "a"), newBank(t, database, "b")
		b.says, elsewhere.says = refusing, refusing
		b.wants("agent", fault.Denied, 1, transfer)
		time.Sleep(remember / 2)
		for _, same := range []string{
			transfer,
			`{"steps":[{"bank.transfer":{"to":"acme","amount":8.2e5}}]}`,
			`{"steps":[{"fn":"Bank_Transfer","args":{"payee":"acme","amount":820000.0}}]}`,
			`{"common":{"to":"acme"},"steps":[{"fn":"transfer","args":{"amount":820000}}]}`,
			`{"input":{"sum":820000},"steps":[{"expr":"'acme'"},{"id":"again","fn":"bank.transfer","args":{"amount":"$input.sum","to":"$0"}}]}`,
			`{"steps":[{"fn":"bank.transfer","args":{"amount":820000,"to":"acme"},"undo":{"fn":"bank.recall","args":{"to":"me"}}}]}`,
			`{"steps":[{"fn":"bank.transfer","forEach":"[820000]","args":{"amount":"$item","to":"acme"}}]}`,
			`{"steps":[{"fn":"chain.pay","args":{"sum":820000}}]}`,
			`{"onError":"continue","steps":[{"chain":{"steps":[{"fn":"bank.transfer","args":{"amount":820000,"to":"acme"}}]}}]}`,
		} {
			if a := b.engine.Run(t.Context(), []byte(same), b.caller("agent")); !strings.Contains(string(a.JSON), `"code":"denied"`) ||
				!strings.Contains(string(a.JSON), "it was denied by agent at ") {
				t.Errorf("%s: %s, want denied, by whom and when", same, a.JSON)
			}
		}
		if a := b.engine.Call(t.Context(), &chain.Call{Function: "bank.transfer", Args: []byte(`{"to":"acme","amount":820000}`)},
			b.caller("agent")); codeOf(a) != fault.Denied {
			t.Errorf("a call of the function: %s, want denied", a.JSON)
		}
		if len(b.asked) != 1 {
			t.Errorf("%d questions, want that of the first run only", len(b.asked))
		}
		b.wants("agent", fault.Denied, 1, `{"steps":[{"fn":"bank.transfer","args":{"amount":820000,"to":"acme","note":"please"}}]}`)
		b.wants("another", fault.Denied, 1, transfer)
		elsewhere.wants("agent", fault.Denied, 1, transfer)
		time.Sleep(remember/2 + time.Second)
		b.wants("agent", fault.Denied, 1, transfer)
		if len(b.sent)+len(elsewhere.sent) > 0 {
			t.Errorf("sent %v and %v, want nothing", b.sent, elsewhere.sent)
		}
	})
}

// shared is a driver that two journals use. Neither closes it.
type shared struct{ journal.Driver }

func (*shared) Close() error { return nil }

// TestOnlyRefusalsHold: a question that was dismissed, that nobody answered or that nobody could be asked denies nothing to later runs.
func TestOnlyRefusalsHold(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil, "")
	for what, end := range map[string]error{"dismissed": chain.ErrDismissed, "timed out": context.DeadlineExceeded, "cannot": errors.New("gone")} {
		b.says = func() (bool, error) { return false, end }
		code := fault.ApprovalRequired
		if errors.Is(end, chain.ErrDismissed) {
			code = fault.Denied
		}
		run := b.wants("agent", code, 1, transfer).Get("resume").Str
		if code == fault.Denied {
			b.wants("agent", code, 0, fmt.Sprintf(`{"resume":%q}`, run))
		}
		b.says = func() (bool, error) { return true, nil }
		b.wants("agent", "", 1, transfer)
		if len(b.sent) != 1 {
			t.Errorf("%s: sent %v, want one transfer after the second question", what, b.sent)
		}
		b.sent = nil
	}
}

// TestDenialIsLifted: an operator who approves a later run ends the denial. The caller cannot, with an approve that it had before.
func TestDenialIsLifted(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil, "")
	waits := b.wants("agent", fault.ApprovalRequired, 0, transfer)
	b.says = refusing
	b.wants("agent", fault.Denied, 1, transfer)
	b.says = nil
	used := b.wants("agent", fault.Denied, 0, fmt.Sprintf(`{"resume":%q,"approve":%q}`, waits.Get("resume").Str, waits.Get("approve").Str))
	if !strings.Contains(used.Get("error.message").Str, "another run") {
		t.Errorf("the earlier approve: %s, want a fault that names the denial", used)
	}
	if _, f := b.engine.DecideOwn(t.Context(), waits.Get("resume").Str, waits.Get("approve").Str, &chain.Ruling{Rest: journal.Approved},
		&chain.Caller{ID: "agent"}); f == nil || f.Code != fault.Denied {
		t.Errorf("a decision of its own: %v, want denied", f)
	}
	later := b.wants("agent", fault.Denied, 0, transfer).Get("resume").Str
	b.wants("agent", fault.Denied, 0, fmt.Sprintf(`{"resume":%q}`, later))
	_, err := chain.Decide(t.Context(), b.journal, later, &chain.Ruling{Approve: []string{"0"}, By: "ann"})
	must(t, err)
	b.wants("agent", "", 0, fmt.Sprintf(`{"resume":%q}`, later))
	b.wants("agent", fault.ApprovalRequired, 0, transfer) // asked again, since each approval is for one call
	if !slices.Equal(b.sent, []string{"820000"}) {
		t.Errorf("sent %v, want one transfer", b.sent)
	}
}

// TestDenialAfterApproval: what the caller has approved itself and not sent yet is not sent after a person has denied the same call in another
// run. What a person has approved is.
func TestDenialAfterApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBank(t, nil, "")
		for _, byPerson := range []bool{false, true} {
			waits, other := b.wants("agent", fault.ApprovalRequired, 0, transfer), b.wants("agent", fault.ApprovalRequired, 0, transfer)
			run, yes := waits.Get("resume").Str, &chain.Ruling{Rest: journal.Approved, By: "agent"}
			if byPerson {
				yes.By = "bob"
				_, err := chain.Decide(t.Context(), b.journal, run, yes)
				must(t, err)
			} else if _, f := b.engine.DecideOwn(t.Context(), run, waits.Get("approve").Str, yes, &chain.Caller{ID: "agent"}); f != nil {
				t.Fatal(f)
			}
			time.Sleep(time.Second)
			_, err := chain.Decide(t.Context(), b.journal, other.Get("resume").Str, &chain.Ruling{Rest: journal.Denied, By: "ann"})
			must(t, err)
			if byPerson {
				b.wants("agent", "", 0, fmt.Sprintf(`{"resume":%q}`, run))
				continue
			}
			for range 2 {
				denied := b.wants("agent", fault.Denied, 0, fmt.Sprintf(`{"resume":%q}`, run))
				if !strings.Contains(denied.Get("error.message").Str, "by ann") || len(b.sent) > 0 {
					t.Errorf("sent %v, answer %s; want nothing, and who denied it", b.sent, denied)
				}
			}
			time.Sleep(remember + time.Second)
		}
		if !slices.Equal(b.sent, []string{"820000"}) {
			t.Errorf("sent %v, want the transfer that a person has approved", b.sent)
		}
	})
}

// TestDenialOfShared: callers whom nobody can tell apart do not deny each other's calls. One with a session has its denials in that; one
// without in its run alone, however the call is spelled there.
func TestDenialOfShared(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil, "")
	b.says = refusing
	run := b.wants("anyone", fault.Denied, 1, transfer).Get("resume").Str
	respelled := fmt.Sprintf(`{"resume":%q,"replace":{"0":{"bank.transfer":{"to":"acme","amount":8.2e5}}}}`, run)
	b.wants("anyone", fault.Denied, 0, respelled)
	b.wants("anyone", fault.Denied, 1, transfer)
	one, other := steps.WithSession(t.Context(), &steps.Session{}), steps.WithSession(t.Context(), &steps.Session{})
	b.wantsIn(one, "anyone", fault.Denied, 1, transfer)
	b.wantsIn(one, "anyone", fault.Denied, 0, transfer)
	b.wantsIn(other, "anyone", fault.Denied, 1, transfer)
	b.says = nil
	waits := b.wantsIn(one, "anyone", fault.ApprovalRequired, 0, strings.Replace(transfer, "acme", "bob", 1)).Get("resume").Str
	_, err := chain.Decide(t.Context(), b.journal, waits, &chain.Ruling{Rest: journal.Denied})
	must(t, err)
	b.wantsIn(one, "anyone", fault.Denied, 0, strings.Replace(transfer, "acme", "bob", 1))
	b.wantsIn(other, "anyone", fault.ApprovalRequired, 0, strings.Replace(transfer, "acme", "bob", 1))
}

// TestDenialOutlivesProcess: a denial is known to other processes with the same database, and the refused calls of a wave are left out of
// its question.
func TestDenialOutlivesProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	open := func() *bank {
		d, err := sqljournal.OpenSQLite(path, nil)
		must(t, err)
		return newBank(t, d, "")
	}
	first := open()
	first.says = refusing
	first.wants("agent", fault.Denied, 1, `{"steps":[{"fn":"bank.transfer","forEach":"1..3","args":{"amount":"$item"}}]}`)
	must(t, first.journal.Close())
	second := open()
	second.says = func() (bool, error) { return true, nil }
	const wave = `{"onError":"continue","steps":[{"fn":"bank.transfer","forEach":"1..5","args":{"amount":"$item"}}]}`
	a := second.engine.Run(t.Context(), []byte(wave), second.caller("agent"))
	if len(second.asked) != 1 || len(second.asked[0]) != 2 || !slices.Equal(second.sent, []string{"4", "5"}) {
		t.Errorf("asked %v and sent %v, want one question about 4 and 5: %s", second.asked, second.sent, a.JSON)
	}
}

// TestOneQuestionForAWave: the calls of steps that run side by side are asked about once, whichever comes first.
func TestOneQuestionForAWave(t *testing.T) {
	t.Parallel()
	e, calls := readEngine(t, steps.ApproveAlways, "")
	for range 20 {
		questions := 0
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.get","forEach":"1..8","args":{"k":"$item"}},{"fn":"guarded.get","args":{"k":"x"}},`+
			`{"fn":"guarded.get","forEach":"1..3","args":{"n":"$item"}}]}`), &chain.Caller{
			Approve: func(_ context.Context, calls []chain.ApprovalCall) (bool, error) {
				questions++
				return len(calls) == 12, nil
			}})
		if !a.OK || questions != 1 {
			t.Fatalf("%d questions, want one about 12 calls: %s", questions, a.JSON)
		}
	}
	if n := len(calls()); n != 20*12 {
		t.Errorf("%d calls, want %d", n, 20*12)
	}
}

// TestOneTokenForACall: whatever is decided, sent again and resumed, of all texts that ever approved a call of a run at most one is good, and
// no call is made twice.
func TestOneTokenForACall(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := newBank(t, nil, "")
		waits := b.wants("agent", fault.ApprovalRequired, 0,
			`{"onError":"continue","steps":[{"fn":"bank.transfer","forEach":"1..3","args":{"amount":"$item"}}]}`)
		run := waits.Get("resume").Str
		tokens := []string{waits.Get("approve").Str}
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "what") {
			case 0:
				r := &chain.Ruling{Approve: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"0[0]", "0[1]"}), 0, 1, rapid.ID[string]).Draw(rt, "yes"),
					Deny: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"0[2]"}), 0, 1, rapid.ID[string]).Draw(rt, "no")}
				_, _ = chain.Decide(t.Context(), b.journal, run, r) // a place may be decided
			case 1:
				a := b.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), &chain.Caller{ID: "agent"})
				if token := gjson.GetBytes(a.JSON, "approve").Str; token != "" && !slices.Contains(tokens, token) {
					tokens = append(tokens, token)
				}
			case 2:
				a := b.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"approve":%q}`, run, rapid.SampledFrom(tokens).Draw(rt, "token")),
					&chain.Caller{ID: "agent"})
				if token := gjson.GetBytes(a.JSON, "approve").Str; token != "" && !slices.Contains(tokens, token) {
					tokens = append(tokens, token)
				}
			}
		}
		good := 0
		for _, token := range tokens {
			if a := b.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"approve":%q}`, run, token), &chain.Caller{ID: "agent"}); codeOf(a) !=
				fault.Denied && codeOf(a) != fault.TokenExpired && !strings.Contains(string(a.JSON), `"at":"/approve"`) {
				good++
			}
		}
		sent := slices.Clone(b.sent)
		slices.Sort(sent)
		if good > 1 || len(slices.Compact(sent)) != len(b.sent) {
			rt.Fatalf("%d of %d tokens are good, and the transfers are %v; want one at most, and none twice", good, len(tokens), b.sent)
		}
	})
}
