package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// The matrix has two worlds for each set of rights: one with all functions, of which the caller may use some, and one in which the others
// do not exist. Whatever the caller sends, both must answer the same, and no answer of the first world may contain a word that occurs
// only in what is hidden.

// markWord returns a unique word. The words of successive numbers differ in a letter or two, so that they would suggest each other.
func markWord(n int) string {
	const syllables = "babebibobukakekikoku"
	text := []byte("q")
	for _, digit := range fmt.Sprintf("%04d", n) {
		i := 2 * int(digit-'0')
		text = append(text, syllables[i], syllables[i+1])
	}
	return string(text)
}

// The parts of a function that have a word of their own.
const (
	inName = iota
	inDescription
	inKeyword
	inArgument
	inArgumentText
	inEnum
	inTitle
	inAlias
	inDefault
	inOutput
	inResult
	inError
	inErrorBody
	inListing
	inAnnotation
	inOldName
	inRecording
	inChain
	inChainText
	marksWidth
)

// matrixFunction is a function of the matrix.
type matrixFunction struct {
	steps.Function
	number       int
	oldName      string // its name before it was renamed; "": it was not renamed
	calls        atomic.Int64
	listed       bool // it has a listing, like a tool of an MCP server
	recordedOnly bool // only a recording has it
	resource     []string
}

// mark returns the function's word for a part.
func (m *matrixFunction) mark(index int) string { return markWord(m.number*marksWidth + index) }

// source returns the name of the function's source.
func (m *matrixFunction) source() string { return m.Spec.Source() }

// validArgs returns valid arguments.
func (m *matrixFunction) validArgs() string {
	return fmt.Sprintf(`{%q:%q,"subject":"s1"}`, m.mark(inArgument), m.mark(inEnum))
}

// kindOfFunction is an effect and a tier.
type kindOfFunction struct {
	effect steps.Effect
	tier   steps.Tier
}

// kindsOfFunctions returns all combinations.
func kindsOfFunctions() (all []kindOfFunction) {
	for _, effect := range []steps.Effect{steps.Read, steps.Write, steps.Destroy} {
		for _, tier := range []steps.Tier{steps.TierDefault, steps.TierRead, steps.TierReadWrite, steps.TierAdmin} {
			all = append(all, kindOfFunction{effect, tier})
		}
	}
	return all
}

// sourceWord returns the unique name of a source.
func sourceWord(n int) string { return markWord(9900 + n) }

// The sources of the matrix. One has functions of all kinds, the others of some kinds. Their names are unique words, too.
var (
	mixedSource, writesSource, adminSource, readsSource = sourceWord(0), sourceWord(1), sourceWord(2), sourceWord(3)
	northSource, southSource, eastSource                = sourceWord(4), sourceWord(5), sourceWord(6)
	brokenOpen, brokenClosed                            = sourceWord(8), sourceWord(9)
	lockedResource                                      = sourceWord(10)
	personalSource, ownResource, otherResource          = sourceWord(12), sourceWord(13), sourceWord(14)
)

// markedFunctions returns the functions of the whole world.
func markedFunctions() (all []*matrixFunction) {
	add := func(resource string, listed bool, kinds ...kindOfFunction) {
		for _, kind := range kinds {
			all = append(all, newMarked(len(all), resource, listed, kind))
		}
	}
	read, write := kindOfFunction{effect: steps.Read}, kindOfFunction{effect: steps.Write}
	admin := []kindOfFunction{{steps.Read, steps.TierAdmin}, {steps.Destroy, steps.TierAdmin}}
	add(mixedSource+".part", false, kindsOfFunctions()...)
	add(mixedSource+".part", true, read, write, admin[0])
	add(mixedSource+"."+lockedResource, false, admin...)
	add(writesSource+".thing", false, write, kindOfFunction{effect: steps.Destroy})
	add(adminSource+".thing", false, admin...)
	add(readsSource, true, read, read)
	for i, source := range []string{northSource, southSource, eastSource} { // same names, different sources
		m := newMarked(len(all), source+".crate", false, []kindOfFunction{read, write, admin[0]}[i])
		m.Spec.Name = source + ".crate.open"
		all = append(all, m)
	}
	for _, kind := range []kindOfFunction{read, write, admin[0]} { // renamed functions
		m := newMarked(len(all), mixedSource+".part", false, kind)
		m.oldName, m.Spec.Name = m.Spec.Name, mixedSource+".renamed."+m.mark(inOldName)
		all = append(all, m)
	}
	for _, resource := range []string{ownResource, otherResource} { // of two callers, each with a credential of its own
		add(personalSource+"."+resource, true, read, write)
	}
	return all
}

// newMarked returns a function with a unique word in each part that a caller could read.
func newMarked(number int, resource string, listed bool, kind kindOfFunction) *matrixFunction {
	m := &matrixFunction{number: number, listed: listed, resource: strings.Split(resource, ".")}
	name := resource + "." + m.mark(inName)
	m.Spec = steps.Spec{
		Name:        name,
		Description: "Looks after the " + m.mark(inDescription) + " of a thing. It takes a while.",
		Keywords:    []string{m.mark(inKeyword)},
		Effect:      kind.effect, EffectDeclared: true, Tier: kind.tier, Idempotent: true,
		Aliases:  map[string]string{m.mark(inAlias): m.mark(inArgument)},
		Defaults: json.RawMessage(fmt.Sprintf(`{"extra":%q}`, m.mark(inDefault))),
		Input: json.RawMessage(fmt.Sprintf(`{"type":"object","title":%q,"required":[%q],"additionalProperties":false,"properties":{`+
			`%q:{"type":"string","description":"one of the %s","enum":[%q,"plain"]},"subject":{"type":"string"},"extra":{"type":"string"},"count":{"type":"integer"},"fail":{"type":"boolean"},"repoId":{"type":"string"}}}`,
			m.mark(inTitle), m.mark(inArgument), m.mark(inArgument), m.mark(inArgumentText), m.mark(inEnum))),
		Output: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"},"items":{"type":"array"}}}`, m.mark(inOutput))),
	}
	if listed {
		_, tail, _ := strings.Cut(name, ".")
		m.Spec.Listing = json.RawMessage(fmt.Sprintf(`{"name":%q,"title":%q,"description":%q,"inputSchema":%s,"annotations":{"title":%q,"readOnlyHint":%v}}`,
			tail, m.mark(inListing), m.Spec.Description, m.Spec.Input, m.mark(inAnnotation), kind.effect == steps.Read))
	}
	m.Call = m.answer
	return m
}

// answer implements the function: it returns a small or a large result, or a failure.
func (m *matrixFunction) answer(_ context.Context, args []byte) ([]byte, error) {
	m.calls.Add(1)
	a := gjson.ParseBytes(args)
	if a.Get("fail").Bool() {
		f := fault.New(fault.FunctionFailed, "the %s is out of order", m.mark(inError))
		f.Body = []byte(fmt.Sprintf(`{"why":%q}`, m.mark(inErrorBody)))
		return nil, f
	}
	var items []string
	for i := range int(a.Get("count").Int()) {
		items = append(items, fmt.Sprintf(`{"id":%d,"of":"%s"}`, i, m.mark(inResult)))
	}
	return []byte(fmt.Sprintf(`{"subject":"s1",%q:%q,"items":[%s]}`, m.mark(inOutput), m.mark(inResult), strings.Join(items, ","))), nil
}

// settingsOfMatrix returns settings that rename functions, and that reserve two unknown sources for administrators.
func settingsOfMatrix(t testing.TB, all []*matrixFunction) *steps.Settings {
	t.Helper()
	admin := steps.TierAdmin
	list := []steps.Setting{{Pattern: brokenClosed + ".*", Tier: &admin}, {Pattern: closedUpstream + ".*", Tier: &admin}}
	for _, m := range all {
		if m.oldName != "" {
			name := m.Spec.Name
			list = append(list, steps.Setting{Pattern: m.oldName, Rename: &name})
		}
	}
	settings, faults := steps.NewSettings(list)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return settings
}

// chainsOf returns the saved chains that exist: for each function that exists, one that calls it.
func chainsOf(t testing.TB, all []*matrixFunction, exists func(*steps.Spec) bool) (list savedSource) {
	t.Helper()
	for _, m := range all {
		text := fmt.Sprintf(`{"description":"Keeps the %s of a thing.","tool":true,"prompt":true,"steps":[{"fn":%q,"args":%s}]}`,
			m.mark(inChainText), m.Spec.Name, m.validArgs())
		fn, faults := chain.Saved(m.mark(inChain), []byte(text), &chain.Options{})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		spec := fn.Spec
		if spec.Effect, spec.Tier = m.Spec.Effect, m.Spec.Tier; exists(&m.Spec) && exists(&spec) {
			list = append(list, *fn)
		}
	}
	return list
}

// savedSource offers saved chains.
type savedSource []steps.Function

func (s savedSource) Functions() []steps.Function { return s }
func (s savedSource) Close() error                { return nil }

// markedSource offers functions.
type markedSource []*matrixFunction

func (s markedSource) Functions() []steps.Function {
	list := make([]steps.Function, len(s))
	for i, m := range s {
		list[i] = m.Function
		if m.oldName != "" {
			list[i].Name = m.oldName
		}
	}
	return list
}

func (s markedSource) Close() error { return nil }

// brokenSource is a source that could not be reached, so that its functions are unknown.
type brokenSource struct{ why string }

func (b *brokenSource) Functions() []steps.Function { return nil }
func (b *brokenSource) Close() error                { return nil }
func (b *brokenSource) Watch(func())                {}
func (b *brokenSource) Status() steps.Status {
	return steps.Status{State: steps.StateFailed, Error: fault.New(fault.Unavailable, "nobody answers at %s", b.why), Version: b.why + " 1"}
}

// whyBroken returns the host in the error of a source that could not be reached.
func whyBroken(source string) string { return source + "host" }

// matrixCaller returns a caller; patterns as in steps.Rights.
func matrixCaller(id string, tier steps.Tier, patterns string) steps.Caller {
	return steps.Caller{ID: id, Rights: steps.Rights{Tier: tier, Functions: patterns}}
}

// mayUse reports whether a caller may use a function. It does not use the code under test.
func mayUse(a steps.Caller, spec *steps.Spec) bool {
	for _, resource := range []string{ownResource, otherResource} {
		if strings.HasPrefix(spec.Name, personalSource+"."+resource+".") && a.Credentials != personalSource+"="+resource {
			return false
		}
	}
	need := steps.TierReadWrite
	if a.Plans { // no chain of the matrix is signed, and a plan is not a function
		return false
	}
	switch {
	case spec.Tier != steps.TierDefault:
		need = spec.Tier
	case spec.Effect == steps.Read:
		need = steps.TierRead
	}
	if need > max(a.Tier, steps.TierRead) {
		return false
	}
	patterns := strings.Fields(a.Functions)
	for _, pattern := range patterns {
		if within, err := path.Match(pattern, spec.Name); err == nil && within {
			return true
		}
	}
	return len(patterns) == 0
}

// hiddenWords returns the words that a caller must never read.
func hiddenWords(a steps.Caller, all []*matrixFunction) (words []string) {
	shown := map[string]bool{}
	for _, m := range all {
		if mayUse(a, &m.Spec) {
			shown[m.source()] = true
			for _, segment := range m.resource {
				shown[segment] = true
			}
		}
	}
	seen := map[string]bool{}
	for _, m := range all {
		if mayUse(a, &m.Spec) {
			continue
		}
		for index := range marksWidth {
			words = append(words, m.mark(index))
		}
		for _, segment := range append([]string{m.source()}, m.resource...) {
			if strings.HasPrefix(segment, "q") && !shown[segment] && !seen[segment] {
				seen[segment] = true
				words = append(words, segment)
			}
		}
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == personalSource }) // it may be there, and locked
	for _, source := range []string{brokenOpen, brokenClosed, personalSource} {
		if !slices.ContainsFunc(samplesOf(source), func(spec *steps.Spec) bool { return mayUse(a, spec) }) {
			words = append(words, source)
		}
	}
	return words
}
