package chain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// bin is a store whose functions do what their arguments say, until they are mended, and that logs what reached it.
type bin struct {
	mu     sync.Mutex
	items  map[string]string
	log    []string
	mended bool
}

func (b *bin) functions() []steps.Function {
	call := func(name string, do func(args gjson.Result) ([]byte, error)) steps.Call {
		return func(ctx context.Context, args []byte) ([]byte, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			line := name + " " + string(args)
			if header, key := steps.IdempotencyKey(ctx); key != "" {
				line += " " + header + ": KEY"
			}
			b.log = append(b.log, keys.ReplaceAllString(line, "oc-KEY"))
			return do(gjson.ParseBytes(args))
		}
	}
	put := func(args gjson.Result) ([]byte, error) {
		switch fail := args.Get("fail").Str; {
		case b.mended || fail == "":
		case fail == "lost":
			b.items[args.Get("key").Str] = args.Get("note").Raw
			return nil, fault.New(fault.Timeout, "the line is dead")
		default:
			return nil, &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "the bin says no"}
		}
		b.items[args.Get("key").Str] = args.Get("note").Raw
		return fmt.Appendf(nil, `{"id":%q}`, "id-"+args.Get("key").Str), nil
	}
	get := func(args gjson.Result) ([]byte, error) {
		if args.Get("fail").Exists() && !b.mended {
			return nil, fault.New(fault.Unavailable, "the bin is away")
		}
		return fmt.Appendf(nil, `{"keys":["x","y"],"n":%d}`, len(b.items)), nil
	}
	remove := func(args gjson.Result) ([]byte, error) {
		delete(b.items, strings.TrimPrefix(args.Get("id").Str, "id-"))
		return []byte(`{"deleted":true}`), nil
	}
	put1, get1 := call("bin.put", put), call("bin.get", get)
	return []steps.Function{
		{Spec: steps.Spec{Name: "bin.put", EffectDeclared: true}, Call: put1},
		{Spec: steps.Spec{Name: "bin.guess"}, Call: call("bin.guess", put)},
		{Spec: steps.Spec{Name: "bin.pay", EffectDeclared: true, Idempotency: &steps.Idempotency{Header: "Idempotency-Key"}}, Call: call("bin.pay", put)},
		{Spec: steps.Spec{Name: "bin.charge", EffectDeclared: true, Idempotency: &steps.Idempotency{Argument: "token"}}, Call: call("bin.charge", put)},
		{Spec: steps.Spec{Name: "bin.make", EffectDeclared: true, Undo: &steps.Undo{Function: "bin.remove", Args: []byte(`{"id":"$result.id"}`)}}, Call: call("bin.make", put)},
		{Spec: steps.Spec{Name: "bin.guarded", EffectDeclared: true, Approve: steps.ApproveWrite}, Call: call("bin.guarded", put)},
		{Spec: steps.Spec{Name: "bin.remove", Effect: steps.Destroy, EffectDeclared: true}, Call: call("bin.remove", remove)},
		{Spec: steps.Spec{Name: "bin.get", Effect: steps.Read}, Call: get1},
	}
}

var keys = regexp.MustCompile(`oc-[0-9a-f]{32}`)

// TestRuns plays the stories of ../testdata/runs: requests of one caller, one after the other, to one engine with a journal. `N/chain` is a
// request, in which RESUME and APPROVE stand for what an earlier answer had, `N/answer` what it must be answered, and `N/calls` what
// must have reached the store. `saved/NAME` is a saved chain, `N/mend` mends the store before a request and `N/unmend` breaks it again, `options` holds chain.Options as JSON.
func TestRuns(t *testing.T) {
	t.Parallel()
	schemas := compileSchemas(t)
	eachArchive(t, "../testdata/runs/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		story(t, archive, func(answer []byte) { validate(t, schemas[1], answer) })
	})
}

func story(t *testing.T, archive *txtar.Archive, valid func(answer []byte)) {
	var o chain.Options
	if options := section(archive, "options"); options != nil {
		if err := json.Unmarshal(options.Data, &o); err != nil {
			t.Fatal(err)
		}
	}
	b := &bin{items: map[string]string{}}
	registry, err := steps.NewRegistry(append(b.functions(), savedChains(t, archive)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	registry = registry.LinkChains(nil)
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	o.Functions, o.Journal = registry, j
	engine, err := chain.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	resume, approve := "", ""
	for _, f := range archive.Files {
		name, isChain := strings.CutSuffix(f.Name, "/chain")
		if !isChain {
			continue
		}
		if section(archive, name+"/mend") != nil {
			b.mended = true
		}
		if section(archive, name+"/unmend") != nil {
			b.mended = false
		}
		request := bytes.ReplaceAll(bytes.ReplaceAll(f.Data, []byte("RESUME"), []byte(resume)), []byte("APPROVE"), []byte(approve))
		answer := engine.Run(t.Context(), request, nil)
		report := answer.JSON
		if r := gjson.GetBytes(report, "resume").Str; r != "" {
			resume = r
			report = bytes.ReplaceAll(report, []byte(r), []byte("RESUME"))
		}
		if a := gjson.GetBytes(report, "approve").Str; a != "" {
			approve = a
			report = bytes.ReplaceAll(report, []byte(a), []byte("APPROVE"))
		}
		if !answer.OK || bytes.HasPrefix(answer.JSON, []byte(`{"ok":true`)) {
			valid(answer.JSON)
		}
		check(t, archive, name+"/answer", tokenCounts.ReplaceAll(normalise(report), []byte(`"tokens":0`)))
		check(t, archive, name+"/calls", []byte(strings.Join(b.log, "\n")+"\n"))
		b.log = nil
	}
}

// savedChains are the functions that a story's saved chains are.
func savedChains(t *testing.T, archive *txtar.Archive) (list []steps.Function) {
	for _, f := range archive.Files {
		name, isSaved := strings.CutPrefix(f.Name, "saved/")
		if !isSaved {
			continue
		}
		function, faults := chain.Saved(name, f.Data, &chain.Options{})
		if len(faults) > 0 {
			t.Fatalf("%s: %v", f.Name, faults)
		}
		list = append(list, *function)
	}
	return list
}

// tokenCounts are those of answers with the true ids.
var tokenCounts = regexp.MustCompile(`"tokens":\d+`)

// TestApprovalWithinBudget: however many calls wait, the answer fits the least budget, and whoever has it can go on.
func TestApprovalWithinBudget(t *testing.T) {
	t.Parallel()
	b := &bin{items: map[string]string{}}
	registry, err := steps.NewRegistry(b.functions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := budget.NewResults(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: registry, Journal: j, Results: results})
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{150, 300, 1000} {
		a := engine.Run(t.Context(), fmt.Appendf(nil, `{"budget":{"maxTotalTokens":%d},"steps":[{"fn":"bin.put","args":{"key":"free"}},{"fn":"bin.guarded","forEach":"1..300","args":{"key":"$item"}}]}`, limit), nil)
		report := gjson.ParseBytes(a.JSON)
		if n := report.Get("usage.tokens").Int(); n > int64(limit) || report.Get("error.code").Str != "approval_required" ||
			report.Get("resume").Str == "" || report.Get("approve").Str == "" {
			t.Errorf("%d: %s", limit, a.JSON)
		}
		token := report.Get("error.continuation_token").Str
		page := engine.Run(t.Context(), fmt.Appendf(nil, `{"continuation_token":%q,"mode":"full","lite":true}`, token), nil)
		if n := len(gjson.ParseBytes(page.JSON).Array()); n != 300 {
			t.Errorf("%d: the list has %d calls: %.300s", limit, n, page.JSON)
		}
	}
}

func noop(context.Context, []byte) ([]byte, error) { return []byte(`{"keys":[],"n":0}`), nil }
