package state

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Bounds of a checkpoint.
const (
	maxCheckpointTokens = 1000
	checkpointKeys      = 40 // keys that are looked at, those changed last
	checkpointRuns      = 5
)

// checkpoint is what a new conversation of a caller can read.
type checkpoint struct {
	Count   int             `json:"count"` // of all keys
	Bytes   int             `json:"bytes"` // that they count
	Max     int64           `json:"maxBytes"`
	Keys    []checkpointKey `json:"keys"` // those that were changed last
	Runs    []checkpointRun `json:"runs,omitempty"`
	Answers int             `json:"answerTokens,omitempty"` // the most tokens of one answer
}

type checkpointKey struct {
	Key   string `json:"key"`
	Space string `json:"space,omitempty"`
	Shape string `json:"shape"`
	Bytes int    `json:"bytes"`
}

type checkpointRun struct {
	Run    string `json:"run"`
	Chain  string `json:"chain,omitempty"`
	Status string `json:"status"`
	Code   string `json:"code,omitempty"`
	Began  string `json:"began"`
}

// located is a value with the owner and the space that it is in.
type located struct {
	journal.StateValue
	owner, shown string // the space as callers name it
}

// checkpoint sums up what the caller has kept, and how its last runs have ended.
func (s *Source) checkpoint(ctx context.Context, _ struct{}) (*checkpoint, error) {
	all, caller, err := s.visible(ctx)
	if err != nil {
		return nil, err
	}
	c := &checkpoint{Count: len(all), Max: s.o.MaxBytes, Keys: []checkpointKey{}}
	if s.o.AnswerTokens != nil {
		c.Answers = s.o.AnswerTokens()
	}
	for i := range all {
		c.Bytes += all[i].Size
	}
	slices.SortFunc(all, func(a, b located) int {
		return cmp.Or(cmp.Compare(b.Version, a.Version), cmp.Compare(a.Name, b.Name), cmp.Compare(a.shown, b.shown))
	})
	for _, v := range all[:min(len(all), checkpointKeys)] {
		found, err := s.o.Journal().States(ctx, &journal.StateFilter{Owner: v.owner, Space: v.Space, Names: []string{v.Name}, Values: true})
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			c.Keys = append(c.Keys, checkpointKey{v.Name, v.shown, shapeOf(gjson.ParseBytes(found[0].Value)), v.Size})
		}
	}
	if caller != s.o.Anonymous || caller == "" {
		if c.Runs, err = s.lastRuns(ctx, caller); err != nil {
			return nil, err
		}
	}
	for {
		encoded, err := encode(c)
		if err != nil {
			return nil, err
		}
		if s.tokens(encoded) <= maxCheckpointTokens || len(c.Keys) == 0 {
			return c, nil
		}
		c.Keys = c.Keys[:len(c.Keys)*3/4]
	}
}

// tokens returns the tokens of a text; without a counter, at most so many.
func (s *Source) tokens(text []byte) int {
	if s.o.Tokens == nil {
		return len(text)
	}
	return s.o.Tokens(text)
}

// visible returns the values that the caller can read, without what they hold: its own, those of spaces that it shares, and those of its
// session.
func (s *Source) visible(ctx context.Context) (all []located, caller string, err error) {
	places := map[string]place{}
	session, err := s.placeOf(ctx, sessionSpace)
	if err == nil {
		places[sessionSpace] = session
	}
	own, anonymous := s.placeOf(ctx, "")
	if anonymous != nil && len(places) == 0 {
		return nil, "", anonymous
	}
	for space := range s.o.Spaces {
		if p, err := s.placeOf(ctx, space); err == nil && p.shared {
			places[space] = p
		}
	}
	for space, p := range places {
		found, err := s.o.Journal().States(ctx, &journal.StateFilter{Owner: p.Owner, Space: p.Space})
		if err != nil {
			return nil, "", err
		}
		for _, v := range found {
			all = append(all, located{v, p.Owner, space})
		}
	}
	if anonymous == nil { // else its session is all that it has
		found, err := s.o.Journal().States(ctx, &journal.StateFilter{Owner: own.Owner, AnySpace: true})
		if err != nil {
			return nil, "", err
		}
		for _, v := range found {
			if !strings.Contains(v.Space, " ") { // neither locks, nor values of a session
				all = append(all, located{v, own.Owner, v.Space})
			}
		}
	}
	return all, own.caller, nil
}

// lastRuns returns the last runs of a caller, the newest first. A saved chain is named only to those who may use it: rights change.
func (s *Source) lastRuns(ctx context.Context, caller string) (list []checkpointRun, err error) {
	none := ""
	rows, err := s.o.Journal().List(ctx, &journal.Filter{Callers: []string{caller}, Parent: &none, Limit: checkpointRuns})
	if err != nil {
		return nil, err
	}
	functions := steps.CallbacksOf(ctx).Functions
	for i := range rows {
		r := &rows[i]
		if r.Scope != s.o.Scope || r.Expires.Before(time.Now()) {
			continue
		}
		if strings.HasPrefix(r.Chain, steps.ChainSource+".") && functions != nil && !functions.Has(r.Chain) {
			r.Chain = ""
		}
		list = append(list, checkpointRun{r.ID, fault.ClipRunes(r.Chain, maxShape), string(r.Status), string(r.Code), timeText(r.Began)})
	}
	return list, nil
}
