package state

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

type changeArgs struct {
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Space     string          `json:"space"`
	IfVersion *integer        `json:"ifVersion"`
	TTL       string          `json:"ttl"`
}

// maxTTL bounds how long a value may be kept.
const maxTTL = 366 * 24 * time.Hour

// lifetime returns the time that an argument names; "": otherwise. It may be 0 if otherwise is.
func lifetime(argument, text string, otherwise, most time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < min(otherwise, 1) || d > most {
		return 0, badArgument(argument, "%s is a time in h, m, s or ms such as 24h (7 days are 168h), at most %s", argument, timeOf(most))
	}
	return d, nil
}

// timeOf writes a bound as callers write it: 10m, 24h.
func timeOf(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "0s")
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// change is one change of a value while it is decided.
type change struct {
	*changeArgs
	now    journal.StateNow
	ttl    time.Duration // how long the new value is kept
	labels []steps.Label // of the arguments
}

// change changes a value, if its version is that of ifVersion. decide says what is to be done.
func (s *Source) change(ctx context.Context, a *changeArgs,
	decide func(*change) (*journal.StateChange, any, *steps.Undo, error)) (json.RawMessage, error) {
	key, p, err := s.at(ctx, a.Space, a.Key)
	if err != nil {
		return nil, err
	}
	if len(steps.CallbacksOf(ctx).Blocks.Within(a.Value)) > 0 { // its handle would name nothing once the run has ended
		return nil, badArgument("value", "the value holds the handle of a block, which is not kept: refer to its data, as in $0.data, or "+
			"write it to a file")
	}
	longest := maxTTL
	if a.Space == sessionSpace { // nobody can read the values after the session
		longest = s.o.TTL
	}
	ttl, err := lifetime("ttl", a.TTL, s.o.TTL, longest)
	if err != nil {
		return nil, err
	}
	return s.commit(ctx, &p, key, func(now journal.StateNow) (*journal.StateChange, []byte, error) {
		if version := versionOf(now); a.IfVersion != nil && int64(*a.IfVersion) != version {
			return nil, nil, otherVersion(a, version)
		}
		to, result, undo, err := decide(&change{a, now, ttl, steps.CallbacksOf(ctx).Labels})
		if err != nil {
			return nil, nil, err
		}
		if to != nil && to.Value != nil {
			if err := s.checkRoom(&p, now, key.Name, to.Value); err != nil {
				return nil, nil, err.Under("/value")
			}
		}
		if undo != nil {
			if err := steps.ReportUndo(ctx, undo); err != nil {
				return nil, nil, err
			}
		}
		raw, err := encode(result)
		return to, raw, err
	})
}

// checkRoom refuses a value with which the owner's values would be too large.
func (s *Source) checkRoom(p *place, now journal.StateNow, name string, value []byte) *fault.Error {
	switch {
	case now.Size+int64(journal.StateSize(name, value)) <= s.o.MaxBytes:
		return nil
	case p.anonymous:
		return fault.New(fault.LimitExceeded, "with this value, those of all sessions without a token would have more than %d bytes "+
			"(state.maxBytes): delete some, wait until sessions have ended, or give each caller a token (access.tokens)", s.o.MaxBytes)
	}
	return fault.New(fault.LimitExceeded, "with this value, the values in state would have more than %d bytes (state.maxBytes): delete some, "+
		"or give them a shorter ttl", s.o.MaxBytes)
}

func versionOf(now journal.StateNow) int64 {
	if now.StateValue == nil {
		return 0
	}
	return now.Version
}

// otherVersion is the fault of a value whose version is not the expected one.
func otherVersion(a *changeArgs, version int64) *fault.Error {
	if version == 0 {
		return fault.New(fault.Busy, "the version of %q is 0 (there is no value), not %d: somebody deleted it, or it has expired",
			fault.Short(a.Key), *a.IfVersion).Under("/ifVersion")
	}
	return fault.New(fault.Busy, "the version of %q is %d, not %d: somebody changed it; get it again", fault.Short(a.Key), version,
		*a.IfVersion).Under("/ifVersion")
}

// undo returns the call that undoes a change, if the version is still the one that it leaves; args are those beside the key and the space.
func (c *change) undo(function string, version int64, args map[string]any) *steps.Undo {
	args["key"], args["ifVersion"] = c.Key, version
	if c.Space != "" {
		args["space"] = c.Space
	}
	encoded, _ := encode(args) // texts, numbers and JSON can always be encoded
	return &steps.Undo{Function: function, Args: encoded, Labels: c.labelsNow(), Version: versionOf(c.now)}
}

// undoTo returns the call that gives back what is there now.
func (c *change) undoTo(version int64) *steps.Undo {
	if c.now.StateValue == nil {
		return c.undo("state.delete", version, map[string]any{})
	}
	left := max(c.now.Expires.Sub(c.now.Now), time.Second).Round(time.Second)
	return c.undo("state.set", version, map[string]any{"value": json.RawMessage(c.now.Value), "ttl": seconds(left)})
}

// to returns the change to another value. labels are those that the value has besides those of the arguments.
func (c *change) to(value []byte, labels ...steps.Label) *journal.StateChange {
	return &journal.StateChange{Value: value, Labels: steps.LabelsText(steps.JoinLabels(c.labels, labels)), Expires: c.now.Now.Add(c.ttl)}
}

// labelsNow returns the labels of what is there now.
func (c *change) labelsNow() []steps.Label {
	if c.now.StateValue == nil {
		return nil
	}
	return steps.ParseLabels(c.now.Labels)
}

type setResult struct {
	Version int64 `json:"version"`
}

func (s *Source) set(ctx context.Context, a changeArgs) (json.RawMessage, error) {
	if a.Value == nil {
		return nil, badArgument("value", "the argument value is missing")
	}
	return s.change(ctx, &a, func(c *change) (*journal.StateChange, any, *steps.Undo, error) {
		return c.to(a.Value), setResult{c.now.Next}, c.undoTo(c.now.Next), nil
	})
}

type appendResult struct {
	Version int64 `json:"version"`
	Length  int   `json:"length"`
}

func (s *Source) append(ctx context.Context, a changeArgs) (json.RawMessage, error) {
	if a.Value == nil {
		return nil, badArgument("value", "the argument value is missing")
	}
	return s.change(ctx, &a, func(c *change) (*journal.StateChange, any, *steps.Undo, error) {
		list, err := c.elements()
		if err != nil {
			return nil, nil, nil, err
		}
		undo := c.undo("state.delete", c.now.Next, map[string]any{"value": a.Value})
		if c.now.StateValue != nil && len(list) == 0 { // the undo of an element that is the only one deletes the key
			undo = c.undoTo(c.now.Next)
		}
		return c.to(joined(append(list, a.Value)), c.labelsNow()...), appendResult{c.now.Next, len(list) + 1}, undo, nil
	})
}

// elements returns the elements of the list that is there.
func (c *change) elements() (list []json.RawMessage, err error) {
	if c.now.StateValue == nil {
		return nil, nil
	}
	found := gjson.ParseBytes(c.now.Value)
	if !found.IsArray() {
		return nil, fault.New(fault.FunctionFailed, "%q holds no list: its value is %s", fault.Short(c.Key), fault.Short(found.Raw)).Under("/key")
	}
	found.ForEach(func(_, v gjson.Result) bool {
		list = append(list, json.RawMessage(v.Raw))
		return true
	})
	return list, nil
}

// joined returns a list of JSON values.
func joined(list []json.RawMessage) []byte {
	size := 2
	for _, v := range list {
		size += len(v) + 1
	}
	out := append(make([]byte, 0, size), '[')
	for i, v := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

type deleteResult struct {
	Deleted bool `json:"deleted"`
}

func (s *Source) delete(ctx context.Context, a changeArgs) (json.RawMessage, error) {
	return s.change(ctx, &a, func(c *change) (*journal.StateChange, any, *steps.Undo, error) {
		switch {
		case a.Value != nil:
			return c.takeLast()
		case c.now.StateValue == nil:
			return nil, deleteResult{false}, c.undoTo(0), nil
		}
		return &journal.StateChange{}, deleteResult{true}, c.undoTo(0), nil
	})
}

// takeLast takes the value of the call off the end of the list. A list that gets empty is deleted.
func (c *change) takeLast() (*journal.StateChange, any, *steps.Undo, error) {
	list, err := c.elements()
	if err != nil {
		return nil, nil, nil, err
	}
	if len(list) == 0 || !equal(list[len(list)-1], c.Value) {
		return nil, nil, nil, fault.New(fault.Busy, "%q does not end with this value: somebody changed it", fault.Short(c.Key)).Under("/value")
	}
	list = list[:len(list)-1]
	if len(list) == 0 {
		return &journal.StateChange{}, deleteResult{true}, c.undoTo(0), nil
	}
	to := c.to(joined(list), c.labelsNow()...)
	to.Expires = c.now.Expires
	return to, deleteResult{true}, c.undoTo(c.now.Next), nil
}

// equal reports whether two JSON values are equal, whatever their spelling.
func equal(a, b []byte) bool {
	first, err := rawjson.AppendCanonical(nil, a)
	if err != nil {
		return bytes.Equal(a, b)
	}
	second, err := rawjson.AppendCanonical(nil, b)
	return err == nil && bytes.Equal(first, second)
}

// seconds writes a time as the functions take it.
func seconds(d time.Duration) string {
	return (d.Truncate(time.Second)).String()
}
