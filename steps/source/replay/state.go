package replay

import (
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// stateLine has the values of $state that a run of a chain has seen.
type stateLine struct {
	chain  string // the only chain that sees it; "": every chain sees it
	values []byte
}

// State records the values of $state that a run sees, a JSON object; it is for chain.Options.StateRead. Digests replace secrets.
func (r *Recorder) State(ctx context.Context, values []byte) {
	chain, _ := ctx.Value(chainKey{}).(string)
	r.write(&line{State: r.seal.HideConfigured(values, r.secrets, canonicalText), Chain: chain}, "$state", nil)
}

// ReadState returns the recorded values of keys of $state; it is for chain.Options.ReadState. The n-th time that a run of a chain asks, it
// gets those of the n-th line, and after the last one those of the last. It fails with not_recorded if there is none. The context is that
// of Cursor.
func (c *Cassette) ReadState(ctx context.Context, _ string, keys []string) ([]byte, error) {
	run, ok := ctx.Value(cursorKey{c}).(*cursor)
	if !ok {
		return nil, fault.New(fault.Internal, "a replay needs a context made by Cassette.Cursor")
	}
	var seen []stateLine
	for _, l := range c.states {
		if l.chain == "" || l.chain == run.chain {
			seen = append(seen, l)
		}
	}
	if len(seen) == 0 {
		return nil, fault.New(fault.NotRecorded, `%s has no line {"state":{…}}: record the chain again, or write one with the values of $state`,
			c.name)
	}
	run.mu.Lock()
	n := min(run.states, len(seen)-1)
	run.states++
	run.mu.Unlock()
	members := rawjson.ListMembers(seen[n].values)
	members = slices.DeleteFunc(members, func(m rawjson.Member) bool { return !slices.Contains(keys, m.Name) })
	return rawjson.AppendObject(nil, members), nil
}
