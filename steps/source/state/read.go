package state

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

type getArgs struct {
	Key   string `json:"key"`
	Space string `json:"space"`
}

type getResult struct {
	Value   json.RawMessage `json:"value"`
	Version int64           `json:"version"`
	Expires string          `json:"expires"`
}

func (s *Source) get(ctx context.Context, a getArgs) (*getResult, error) {
	key, _, err := s.at(ctx, a.Space, a.Key)
	if err != nil {
		return nil, err
	}
	list, err := s.o.Journal().States(ctx, &journal.StateFilter{Owner: key.Owner, Space: key.Space, Names: []string{key.Name}, Values: true})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, s.missing(ctx, key)
	}
	return &getResult{list[0].Value, list[0].Version, timeText(list[0].Expires)}, nil
}

// missing is the fault of a key that holds nothing, with the nearest keys.
func (s *Source) missing(ctx context.Context, key journal.StateKey) error {
	f := fault.New(fault.FunctionFailed, "there is no value under %q, or it has expired", fault.Short(key.Name)).Under("/key")
	list, err := s.o.Journal().States(ctx, &journal.StateFilter{Owner: key.Owner, Space: key.Space, Limit: maxNearest})
	if err != nil {
		return err
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	f.Nearest = fault.Nearest(key.Name, names, 3)
	return f
}

// maxNearest bounds the keys among which the nearest are looked for.
const maxNearest = 1000

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

type listArgs struct {
	Key    string   `json:"key"`
	Space  string   `json:"space"`
	Limit  *integer `json:"limit"`
	Offset integer  `json:"offset"`
}

type listResult struct {
	Keys      []listed `json:"keys"`
	Truncated bool     `json:"truncated,omitempty"`
	Next      int64    `json:"next,omitempty"`
}

type listed struct {
	Key     string `json:"key"`
	Version int64  `json:"version"`
	Bytes   int    `json:"bytes"`
	Expires string `json:"expires"`
}

const defaultPage, maxPage = 1000, 10_000

func (s *Source) list(ctx context.Context, a listArgs) (*listResult, error) {
	p, err := s.placeOf(ctx, a.Space)
	if err != nil {
		return nil, err
	}
	limit := integer(defaultPage)
	if a.Limit != nil {
		limit = *a.Limit
	}
	if limit < 1 || limit > maxPage || a.Offset < 0 {
		return nil, badArgument("limit", "limit is 1 to %d, offset 0 or more", maxPage)
	}
	found, err := s.o.Journal().States(ctx,
		&journal.StateFilter{Owner: p.Owner, Space: p.Space, Prefix: a.Key, Offset: int(a.Offset), Limit: int(limit) + 1})
	if err != nil {
		return nil, err
	}
	result := &listResult{Keys: []listed{}}
	if len(found) > int(limit) {
		found, result.Truncated, result.Next = found[:limit], true, int64(a.Offset+limit)
	}
	for _, v := range found {
		result.Keys = append(result.Keys, listed{v.Name, v.Version, v.Size, timeText(v.Expires)})
	}
	return result, nil
}

// Labels returns the labels of the values that a call of a caller with these arguments may read, of which null ones are not known yet: of
// the value under a key, or of all in the space, or of all that the caller sees.
func (s *Source) Labels(ctx context.Context, caller string, args []byte) ([]steps.Label, error) {
	space, key := gjson.GetBytes(args, "space"), gjson.GetBytes(args, "key")
	ctx = steps.WithCallbacks(ctx, &steps.Callbacks{Caller: caller})
	spaces := []string{space.Str}
	if space.Exists() && space.Type != gjson.String {
		spaces = append(slices.Collect(maps.Keys(s.o.Spaces)), "", sessionSpace)
	}
	var all []steps.Label
	for _, space := range spaces {
		p, err := s.placeOf(ctx, space)
		if _, refused := fault.As(err); refused {
			continue // the call fails as well
		}
		filter := &journal.StateFilter{Owner: p.Owner, Space: p.Space, AnySpace: len(spaces) > 1 && p.session == nil, Values: true}
		if key.Type == gjson.String {
			filter.Names = []string{key.Str}
		}
		list, err := s.o.Journal().States(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range list {
			all = steps.JoinLabels(all, steps.ParseLabels(list[i].Labels))
		}
	}
	return all, nil
}

// ReadState reads the keys of a caller's default space that a chain names by $state (chain.Options.ReadState).
func (s *Source) ReadState(ctx context.Context, caller string, keys []string) ([]byte, error) {
	p, err := s.placeOf(steps.WithCallbacks(ctx, &steps.Callbacks{Caller: caller}), "")
	if err != nil {
		return nil, err
	}
	list, err := s.o.Journal().States(ctx, &journal.StateFilter{Owner: p.Owner, Space: p.Space, Names: keys, Values: true})
	if err != nil {
		return nil, err
	}
	values := make([]rawjson.Member, len(list))
	for i := range list {
		values[i] = rawjson.Member{Name: list[i].Name, Raw: string(list[i].Value)}
	}
	return rawjson.AppendObject(nil, values), nil
}
