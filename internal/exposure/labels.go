package exposure

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// Rules are what all clients share.
type Rules struct {
	Model   []string // the labels that rules through a model name
	Trusted []string // patterns of values that have no labels, whoever sends them (trusts)
	// State returns the labels of values in state: of those that a call with these arguments may read, null for what is not known; false:
	// they are not known.
	State func(ctx context.Context, caller string, args []byte) ([]steps.Label, bool)
	All   []string // the labels that rules name: what a value may have of which nothing is known
}

// Labels are what the engine asks, for one request of a client. They implement chain.SessionLabels.
type Labels struct {
	ctx    context.Context //nolint:containedctx // of the request, whose compilation asks
	rules  *Rules
	caller string
	record *Record
	shown  func(added []string) // told what the client is shown for the first time; nil: nobody needs to know
}

// Sent returns the labels of a value that the client sends.
func (l *Labels) Sent(value []byte) []string {
	v := gjson.ParseBytes(value)
	trusted := func(p string) bool { return trusts(p, v.String()) }
	if (v.Type == gjson.String || v.Type == gjson.Number) && slices.ContainsFunc(l.rules.Trusted, trusted) {
		return nil
	}
	return l.record.Labels(v)
}

// trusts reports whether a pattern of trusted values matches a value. A * is for the characters of a name or a path, so that a value is one
// address or one path: it holds no list, no sentence and nothing of a URL beyond its path. A path that leads up, and a // that begins a
// comment of an expression or a host, are not trusted unless the pattern has them.
func trusts(trusted, value string) bool {
	allowed := func(c rune) bool {
		return unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("._-+/", c)
	}
	for _, part := range []string{"..", "//"} {
		if strings.Count(value, part) > strings.Count(trusted, part) {
			return false
		}
	}
	return pattern.MatchesOf(trusted, value, allowed)
}

// Kept returns the labels of what a function reads in state.
func (l *Labels) Kept(_ *steps.Spec, args []byte) []steps.Label { return l.state(args) }

// State returns the labels of the value that $state has under a key.
func (l *Labels) State(key string) []steps.Label {
	args, _ := json.Marshal(map[string]string{"key": key}) // texts can always be encoded
	return l.state(args)
}

func (l *Labels) state(args []byte) []steps.Label {
	if known, ok := l.rules.State(l.ctx, l.caller, args); ok {
		return known
	}
	return both(l.rules.All)
}

// both returns labels in both kinds: what is not known may be made of labeled values by a chain, or by a model.
func both(labels []string) (list []steps.Label) {
	for _, label := range labels {
		list = append(list, steps.Label{Name: label}, steps.Label{Name: label, Model: true})
	}
	return list
}

// Shown remembers what the client is shown. Labels that no rule through a model names are of no use.
func (l *Labels) Shown(labels []string) {
	named := slices.DeleteFunc(slices.Clone(labels), func(label string) bool { return !slices.Contains(l.rules.Model, label) })
	if added := l.record.Show(named); len(added) > 0 && l.shown != nil {
		l.shown(added)
	}
}

// Open returns what the engine asks for a request of a client, whose record this is, and remembers what the request sends (nil: nothing).
// keep is told what the client is shown for the first time; nil: nobody needs to know.
func (r *Rules) Open(ctx context.Context, caller string, record *Record, keep func(added []string), request []byte) *Labels {
	if request != nil {
		record.Send(request, len(r.Model))
	}
	return &Labels{ctx: ctx, rules: r, caller: caller, record: record, shown: keep}
}
