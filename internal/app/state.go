package app

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// anonymous is the ID of HTTP callers without tokens.
const anonymous = "http"

// openState opens the source of state, unless nothing is kept. It returns the names of its functions.
func (o *sourceOpener) openState() []string {
	if config.Or(o.config.Journal.Store, "") == "off" {
		return nil
	}
	c := &o.config.State
	options := &state.Options{Journal: func() *journal.Journal { return o.App.Journal }, Scope: o.Scope(), Anonymous: anonymous,
		MaxBytes: int64(config.Or(c.MaxBytes, 0)), TTL: config.Or(c.TTL, 0), Spaces: map[string][]string{}}
	options.Tokens = func(text []byte) int { return o.Counter.Count(text, -1) }
	options.AnswerTokens = func() int { return o.maxTotalTokens }
	for i := range c.Spaces {
		options.Spaces[c.Spaces[i].Name] = c.Spaces[i].Config.CallerIDs()
	}
	source := state.New(options)
	o.state = source
	o.add("state", "/state", source, nil)
	return namesOf(source)
}

// readState returns how chains read $state: from the recording of a replay, or from the journal's database; nil: nothing is kept.
func (a *App) readState() func(ctx context.Context, caller string, keys []string) ([]byte, error) {
	switch {
	case a.cassette != nil:
		return a.cassette.ReadState
	case a.state != nil:
		return a.state.ReadState
	}
	return nil
}

// stateRead returns what records the values of $state; nil: nothing is recorded.
func (a *App) stateRead() func(ctx context.Context, values []byte) {
	if a.process.recording == nil {
		return nil
	}
	return a.recorder().State
}
