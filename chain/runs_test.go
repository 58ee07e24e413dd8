package chain_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
)

// bin is a store that records the calls that reach it. Its functions end as script says, or as their argument fail says until mended is
// set.
type bin struct {
	mu     sync.Mutex
	items  map[string]string
	log    []string
	mended bool
	script []string // lines of an outcome and the beginning of the calls that end with it
}

// scripted returns how script ends a call; ok is false if script does not mention it.
func (b *bin) scripted(call string) (result []byte, ok bool, err error) {
	for i, line := range b.script {
		outcome, text, _ := strings.Cut(line, " ")
		outcome, once := strings.CutSuffix(outcome, "-once")
		if !strings.HasPrefix(call, text) {
			continue
		}
		if once {
			b.script = slices.Delete(b.script, i, i+1)
		}
		switch outcome {
		case "refused":
			return nil, true, &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "the bin says no"}
		case "lost":
			return nil, true, fault.New(fault.Timeout, "the line is dead")
		case "away":
			return nil, true, &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the bin is away"}
		}
		return []byte(outcome), true, nil
	}
	return nil, false, nil
}

func (b *bin) functions() []steps.Function {
	call := func(name string, do func(args gjson.Result) ([]byte, error)) steps.Call {
		return func(ctx context.Context, args []byte) ([]byte, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			line := name + " " + string(args)
			if header, key := steps.IdempotencyKey(ctx); key != "" {
				line += " " + header + ": " + key
			}
			b.log = append(b.log, line)
			if result, ok, err := b.scripted(line); ok {
				return result, err
			}
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
	writes := func(spec steps.Spec) steps.Function {
		spec.EffectDeclared = true
		return steps.Function{Spec: spec, Call: call(spec.Name, put)}
	}
	byHeader, byArgument := &steps.Idempotency{Header: "Idempotency-Key"}, &steps.Idempotency{Argument: "token"}
	return []steps.Function{
		writes(steps.Spec{Name: "bin.put"}),
		writes(steps.Spec{Name: "bin.pay", Idempotency: byHeader}),
		writes(steps.Spec{Name: "bin.charge", Idempotency: byArgument}),
		writes(steps.Spec{Name: "bin.make", Undo: &steps.Undo{Function: "bin.remove", Args: []byte(`{"id":"$result.id"}`)}}),
		writes(steps.Spec{Name: "bin.set", Idempotent: true}),
		writes(steps.Spec{Name: "bin.guarded", Approve: steps.ApproveWrite}),
		writes(steps.Spec{Name: "bin.reset", Idempotent: true, Approve: steps.ApproveWrite}),
		writes(steps.Spec{Name: "bin.take", Undo: &steps.Undo{Function: "bin.reset", Args: []byte(`{"key":"$result.id"}`)}}),
		{Spec: steps.Spec{Name: "bin.guess"}, Call: call("bin.guess", put)},
		{Spec: steps.Spec{Name: "bin.remove", Effect: steps.Destroy, EffectDeclared: true}, Call: call("bin.remove", remove)},
		{Spec: steps.Spec{Name: "bin.get", Effect: steps.Read}, Call: call("bin.get", get)},
	}
}

var (
	keys    = regexp.MustCompile(`(oc-)?[0-9a-f]{32}`)
	secrets = regexp.MustCompile(`"secret":"[0-9a-f]{16}"`)
)

// TestRuns plays the stories of ../testdata/runs: requests of one caller, one after the other, to one engine with a journal. `N/chain` is a
// request, in which RESUME and APPROVE stand for those of an earlier answer; `N/answer` is the answer that it must get, `N/calls` are the
// calls that must have reached the store, and `N/journal`, if it exists, says how the run and its calls must have ended in the journal.
// `saved/NAME` is a saved chain, `options` holds chain.Options as JSON, and `N/caller` the chain.Caller of a request. `N/mend` mends the
// store before a request, and `N/unmend` breaks it again. `N/store` says, from this request on, how calls that begin with a text end:
// refused, lost (it is not known whether they were done), away (they were not done), or with a result; with -once, only the first such
// call.
func TestRuns(t *testing.T) {
	t.Parallel()
	schemas := compileSchemas(t)
	transcript.Each(t, "../testdata/runs/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		newStory(t, archive).play(archive, schemas[1])
	})
}

// story has an engine, the store behind it, and the values of its answers so far.
type story struct {
	t               *testing.T
	store           *bin
	engine          *chain.Engine
	journal         *journal.Journal
	resume, approve string
	run             string   // the run that an undo named
	seen            []string // idempotency keys and hidden secrets
}

func newStory(t *testing.T, archive *txtar.Archive) *story {
	var o chain.Options
	decode(t, section(archive, "options"), &o)
	s := &story{t: t, store: &bin{items: map[string]string{}}, journal: newJournal(t, nil)}
	o.Journal = s.journal
	s.engine = engineOf(t, append(s.store.functions(), savedChains(t, archive)...), o, false)
	return s
}

func (s *story) play(archive *txtar.Archive, published *jsonschema.Schema) {
	for _, name := range namesOf(archive, "/chain") {
		if section(archive, name+"/mend") != nil {
			s.store.mended = true
		}
		if section(archive, name+"/unmend") != nil {
			s.store.mended = false
		}
		if script := section(archive, name+"/store"); script != nil {
			s.store.script = lines(script.Data)
		}
		var caller *chain.Caller
		decode(s.t, section(archive, name+"/caller"), &caller)
		request := strings.NewReplacer("RESUME", s.resume, "APPROVE", s.approve).Replace(string(section(archive, name+"/chain").Data))
		answer := s.engine.Run(s.t.Context(), []byte(request), caller)
		if !answer.OK || bytes.HasPrefix(answer.JSON, []byte(`{"ok":true`)) {
			validate(s.t, published, answer.JSON)
		}
		report := times.ReplaceAll(s.remember(answer.JSON), []byte(`"ms":0`))
		check(s.t, archive, name+"/answer", tokenCounts.ReplaceAll(normalise(report), []byte(`"tokens":0`)))
		check(s.t, archive, name+"/calls", s.calls())
		if section(archive, name+"/journal") != nil {
			check(s.t, archive, name+"/journal", s.ended())
		}
	}
}

// remember records the resume, approve and run of an answer, and replaces them in the answer by those words.
func (s *story) remember(answer []byte) []byte {
	for name, value := range map[string]*string{"resume": &s.resume, "approve": &s.approve, "run": &s.run} {
		if text := gjson.GetBytes(answer, name).Str; text != "" {
			*value = text
			answer = bytes.ReplaceAll(answer, []byte(text), []byte(strings.ToUpper(name)))
		}
	}
	return []byte(s.number("SECRET", secrets, string(answer)))
}

// calls returns the calls that reached the store since the last call of calls.
func (s *story) calls() []byte {
	text := strings.Join(sortReads(s.store.log), "\n") + "\n"
	s.store.log = nil
	return []byte(s.number("KEY", keys, text))
}

// number replaces texts that differ from run to run by a word and a number, in the order of their appearance in the story.
func (s *story) number(word string, what *regexp.Regexp, text string) string {
	return what.ReplaceAllStringFunc(text, func(one string) string {
		if !slices.Contains(s.seen, one) {
			s.seen = append(s.seen, one)
		}
		return fmt.Sprint(word, 1+slices.Index(s.seen, one))
	})
}

// ended returns how the run of the last answer and its calls ended in the journal.
func (s *story) ended() []byte {
	past, err := s.journal.Read(s.t.Context(), s.resume, nil)
	must(s.t, err)
	list := []string{string(past.Row.Status)}
	for _, c := range past.Calls() {
		list = append(list, fmt.Sprint(c.StepPath, " ", c.Function, " ", c.Outcome))
	}
	return []byte(strings.Join(sortReads(list), "\n") + "\n")
}

// sortReads sorts lines about reads that are next to each other: such reads may have been made side by side, in any order.
func sortReads(lines []string) []string {
	isRead := func(line string) bool { return strings.Contains(line, "bin.get ") }
	for i := range lines {
		for at := i; at > 0 && isRead(lines[at-1]) && isRead(lines[at]) && lines[at] < lines[at-1]; at-- {
			lines[at-1], lines[at] = lines[at], lines[at-1]
		}
	}
	return lines
}

// savedChains returns the functions of a story's saved chains.
func savedChains(t *testing.T, archive *txtar.Archive) (list []steps.Function) {
	for _, f := range archive.Files {
		if name, isSaved := strings.CutPrefix(f.Name, "saved/"); isSaved {
			list = append(list, savedFunction(t, name, string(f.Data)))
		}
	}
	return list
}

var (
	times       = regexp.MustCompile(`"ms":\d+`)
	tokenCounts = regexp.MustCompile(`"tokens":\d+`) // the token counts depend on ids that differ from run to run
)
