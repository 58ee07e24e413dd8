// Package state offers what callers keep from one chain to the next: state.set, state.append, state.delete, state.get, state.list and
// state.checkpoint; and locks: state.lock and state.unlock. The values are JSON, have versions and expire. They are kept in the journal's
// database: a change and the record of its call are one transaction, so it is always known whether a call was made.
package state

import (
	"cmp"
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// The defaults of Options.
const (
	DefaultMaxBytes = 16 << 20
	DefaultTTL      = 24 * time.Hour
)

// Options configure a Source. Only Journal is required.
type Options struct {
	// Journal returns the journal in whose database the values are kept.
	Journal func() *journal.Journal
	// Scope separates the values of environments that share a journal, as chain.Options.Scope does.
	Scope string
	// MaxBytes bounds the values of one caller, with those of its sessions, and those of one shared space; 0: DefaultMaxBytes. Callers whom
	// nobody can tell apart (Anonymous) count as one.
	MaxBytes int64
	// TTL is how long a value is kept that names no time; 0: DefaultTTL.
	TTL time.Duration
	// Spaces are the spaces that callers share, each with the IDs of its callers (steps.Callbacks.Caller).
	Spaces map[string][]string
	// Anonymous is the ID that callers have whom nobody can tell apart; "": there are none. They have only the space of their session.
	Anonymous string

	// Tokens counts the tokens of a text, and AnswerTokens returns the most tokens of one answer (0: no limit), for state.checkpoint. nil: one
	// token for each byte, and no limit.
	Tokens       func(text []byte) int
	AnswerTokens func() int
}

// Source offers the functions. It implements steps.Source.
type Source struct {
	o      Options
	closed atomic.Bool
}

// New creates the source. Close only makes later calls fail.
func New(o *Options) *Source {
	s := &Source{o: *o}
	s.o.MaxBytes, s.o.TTL = cmp.Or(s.o.MaxBytes, DefaultMaxBytes), cmp.Or(s.o.TTL, DefaultTTL)
	return s
}

// Close makes later calls fail with unavailable.
func (s *Source) Close() error {
	s.closed.Store(true)
	return nil
}

// Functions returns the functions.
func (s *Source) Functions() []steps.Function {
	return []steps.Function{
		s.function("state.set", "Keeps a JSON value under a key, for later chains.", steps.Write, "key value", `
			`+keyInput+`,"value":{},`+spaceInput+`,`+versionInput+`,`+ttlInput, "version", versionOutput, call(s, s.set)),
		s.function("state.append", "Adds an element to the list under a key, which it begins.", steps.Write, "key value", `
			`+keyInput+`,"value":{"description":"the element"},`+spaceInput+`,`+versionInput+`,`+ttlInput, "version length",
			versionOutput+`,"length":{"type":"integer"}`, call(s, s.append)),
		s.function("state.delete", "Deletes what a key holds.", steps.Destroy, "key", `
			`+keyInput+`,"value":{"description":"instead: takes this off the end of the list"},`+spaceInput+`,`+versionInput, "deleted",
			`"deleted":{"type":"boolean"}`, call(s, s.delete)),
		renewing(s.function("state.lock", "Takes an advisory lock, or waits for it. It ends by itself; fence grows with each holder.", steps.Write,
			"name", `"name":{"type":"string","minLength":1,"maxLength":200},`+spaceInput+`,
			"ttl":{"type":"string","default":"60s","description":"at most 10m"},
			"wait":{"type":"string","description":"while another holds it; else busy at once"}`,
			"token fence until", `"token":{"type":"string"},"fence":{"type":"integer"},"until":{"type":"string"}`, call(s, s.lock))),
		s.function("state.unlock", "Ends a lock.", steps.Write, "token", `"token":{"type":"string","maxLength":500}`, "unlocked",
			`"unlocked":{"type":"boolean"}`, call(s, s.unlock)),
		s.function("state.get", "What a key holds.", steps.Read, "key", keyInput+`,`+spaceInput, "value version expires",
			`"value":{},`+versionOutput+`,`+expiresOutput, call(s, s.get)),
		s.function("state.list", "The keys of a space, without their values.", steps.Read, "", `
			"key":{"type":"string","description":"only keys that begin with this"},`+spaceInput+`,
			"limit":{"type":"integer","minimum":1,"maximum":10000,"default":1000},"offset":{"type":"integer","minimum":0,"default":0}`,
			"keys", `"keys":{"type":"array","items":{"type":"object","properties":{"key":{"type":"string"},`+versionOutput+`,
			"bytes":{"type":"integer"},`+expiresOutput+`},"required":["key","version","bytes","expires"],"additionalProperties":false}},
			"truncated":{"const":true},"next":{"type":"integer"}`, call(s, s.list)),
		s.function("state.checkpoint", "What earlier conversations have left, in short: keys, their shapes and sizes, the last runs, budgets.",
			steps.Read, "", "", "count bytes maxBytes keys", `"count":{"type":"integer"},"bytes":{"type":"integer"},"maxBytes":{"type":"integer"},
			"keys":{"type":"array","items":{"type":"object"}},"runs":{"type":"array","items":{"type":"object"}},
			"answerTokens":{"type":"integer"}`, call(s, s.checkpoint)),
	}
}

// call converts a typed call to a raw one.
func call[A, R any](s *Source, typed func(context.Context, A) (R, error)) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		if s.closed.Load() {
			return nil, fault.New(fault.Unavailable, "the source of state is closed")
		}
		var a A
		if err := jsonv2.Unmarshal(args, &a); err != nil {
			return nil, &fault.Error{Code: fault.BadArguments, Message: "the arguments do not fit the function's input schema", Err: err}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		result, err := typed(ctx, a)
		if err != nil {
			return nil, err
		}
		if raw, ok := any(result).(json.RawMessage); ok {
			return raw, nil
		}
		return encode(result)
	}
}
