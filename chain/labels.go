package chain

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// literals says which labels the values have that a chain's client has written, and keeps that with the run: whoever resumes it, be it a
// person who approved its calls, the values of its chain have the labels that they had when they were sent.
type literals struct {
	session plan.SessionLabels // nil: nothing is known of the client
	kept    func(token string) []steps.Label
	labels  map[string][]string // by value: what those have that have labels

	// Of a run that is resumed:
	earlier map[string][]string // what the values of its chain had that had labels
	chain   map[string]bool     // the values of its chain; nil: no run is resumed
	own     map[string]bool     // those of the request to resume it
}

// followLiterals begins to keep the labels of a request's values; text is the request.
func (s *request) followLiterals(ctx context.Context, text []byte) {
	if s.o.policy == nil {
		return
	}
	l := &literals{session: s.rules.Labels, labels: map[string][]string{},
		kept: func(token string) []steps.Label { return s.keptLabels(ctx, token) }}
	past := s.ledger.Leased()
	if past == nil {
		past = s.ledger.Previewed()
	}
	if past != nil {
		l.chain, l.own = map[string]bool{}, map[string]bool{}
		_ = json.Unmarshal(past.Labels, &l.earlier) // onecall has written it; nil: there were none
		addValues(l.chain, gjson.ParseBytes(past.Chain))
		if s.decision == nil { // else the chain is as it was
			addValues(l.own, gjson.ParseBytes(text))
		}
	}
	s.literals, s.rules.Labels = l, l
}

// addValues adds the texts, numbers and other scalars within a value, also of JSON in a text (Caller.TextAsJSON).
func addValues(all map[string]bool, value gjson.Result) {
	if text := strings.TrimSpace(value.Str); value.Type == gjson.String && (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")) {
		all[valueKey(value)] = true
		value = gjson.Parse(text)
	}
	if !value.IsObject() && !value.IsArray() {
		all[valueKey(value)] = true
		return
	}
	value.ForEach(func(_, member gjson.Result) bool {
		addValues(all, member)
		return true
	})
}

// valueKey is the same for a text in each spelling.
func valueKey(value gjson.Result) string {
	if value.Type == gjson.String {
		return `"` + value.Str
	}
	return value.Raw
}

// literalLabels returns what the journal keeps of the chain's values; nil: they have no labels.
func (s *request) literalLabels() []byte {
	if s.literals == nil || len(s.literals.labels) == 0 {
		return nil
	}
	text, _ := json.Marshal(s.literals.labels) // texts can always be encoded
	return text
}

// Sent implements plan.SessionLabels. What a resumed chain had is as it was; what the request to resume it has is as it is now.
func (l *literals) Sent(value []byte) []string {
	key := valueKey(gjson.ParseBytes(value))
	labels := l.earlier[key]
	if l.session != nil && (!l.chain[key] || l.own[key]) {
		for _, label := range l.session.Sent(value) {
			if !slices.Contains(labels, label) {
				labels = append(slices.Clip(labels), label)
			}
		}
	}
	if len(labels) > 0 {
		l.labels[key] = labels
	}
	return labels
}

// Kept implements plan.SessionLabels.
func (l *literals) Kept(function *steps.Spec, args []byte) []steps.Label {
	switch {
	case !function.State:
		return l.kept(gjson.GetBytes(args, "token").Str)
	case l.session == nil:
		return nil
	}
	return l.session.Kept(function, args)
}

// keptLabels returns the labels of a kept result; "" is one that is not known yet. A token that names nothing of the caller's has none.
func (s *request) keptLabels(ctx context.Context, token string) []steps.Label {
	if s.form.Results == nil {
		return nil
	}
	if token != "" {
		switch text, known, err := s.form.Results.Labels(ctx, s.caller, token); {
		case fault.CodeOf(err) == fault.TokenExpired:
			return nil
		case err == nil && known:
			return steps.ParseLabels(text)
		}
	}
	return s.allLabels()
}

// allLabels returns all labels that rules name, in both kinds.
func (s *request) allLabels() (all []steps.Label) {
	for _, name := range s.o.policy.Labels() {
		all = append(all, steps.Label{Name: name}, steps.Label{Name: name, Model: true})
	}
	return all
}

// State implements plan.SessionLabels.
func (l *literals) State(key string) []steps.Label {
	if l.session == nil {
		return nil
	}
	return l.session.State(key)
}

// takeLabels returns the labels of a kept result that the client is about to be shown, in whole or in part, and tells the session. What is
// kept of it has them, too.
func (s *request) takeLabels(ctx context.Context, token string) []steps.Label {
	if s.o.policy == nil || s.form.Results == nil {
		return nil
	}
	labels := s.keptLabels(ctx, token)
	s.form.Results = s.form.Results.WithLabels(steps.LabelsText(labels))
	s.tellShown(labels)
	return labels
}

// showUnknown tells the session that the client is about to be shown what another process made: it may have all labels.
func (s *request) showUnknown() {
	if s.o.policy == nil {
		return
	}
	labels := s.allLabels()
	if s.tellShown(labels); s.form.Results != nil {
		s.form.Results = s.form.Results.WithLabels(steps.LabelsText(labels))
	}
}
