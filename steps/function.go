// Package steps holds what a chain's steps can call: functions with their specs (name, schemas, effect, tier), the
// registry that resolves names to them and is narrowed to what a caller may see, argument checks compiled once, one-line
// signatures, and the guarded call that gives every source time limits, panic recovery and coded errors. It knows
// nothing of chains, references or tokens; each source is a package of its own below it.
package steps

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// Effect is what a call may do to the world. The zero value is Write: a function of which nothing is known writes.
type Effect uint8

// The effects, in the spelling of configurations and recordings.
const (
	Write   Effect = iota // "write": changes something
	Read                  // "read": changes nothing
	Destroy               // "destroy": removes or overwrites something for good
)

var effectNames = [...]string{Write: "write", Read: "read", Destroy: "destroy"}

type effectKey struct{}

// EffectOf is the effect of the function that ctx calls: that of the configuration if it differs from declared, the source's own.
func EffectOf(ctx context.Context, declared Effect) Effect {
	if effect, ok := ctx.Value(effectKey{}).(Effect); ok {
		return effect
	}
	return declared
}

// String is the effect's word: "write", "read" or "destroy".
func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return effectNames[Write]
}

// ParseEffect reads an effect's word exactly as String spells it; bad_request for anything else.
func ParseEffect(word string) (Effect, error) {
	for e, name := range effectNames {
		if word == name {
			return Effect(e), nil
		}
	}
	return Write, unknownWord("effect", word, effectNames[:])
}

// Tier is the right that a function asks of its caller, and that a caller has. Tiers are ordered: a caller may use what
// is at or below its own.
type Tier uint8

// The tiers.
const (
	TierDefault   Tier = iota // of a function: the tier of its effect (read: TierRead, else TierReadWrite)
	TierRead                  // "read"
	TierReadWrite             // "read_write"
	TierAdmin                 // "admin": by configuration only
)

var tierNames = [...]string{TierDefault: "", TierRead: "read", TierReadWrite: "read_write", TierAdmin: "admin"}

// String is the tier's word: "read", "read_write" or "admin", and "" for TierDefault.
func (t Tier) String() string {
	if int(t) < len(tierNames) {
		return tierNames[t]
	}
	return tierNames[TierAdmin]
}

// ParseTier reads a tier's word exactly as String spells it; bad_request for anything else, "" included: a tier that is
// misspelt must stop the start, and grant nothing.
func ParseTier(word string) (Tier, error) {
	for t, name := range tierNames {
		if word == name && word != "" {
			return Tier(t), nil
		}
	}
	return TierDefault, unknownWord("tier", word, tierNames[TierRead:])
}

func unknownWord(what, word string, known []string) *fault.Error {
	f := fault.New(fault.BadRequest, "unknown %s %q: use %s", what, fault.ClipRunes(word, 60), strings.Join(known, ", "))
	f.Available, f.Nearest = known, fault.Nearest(word, known, 1)
	return f
}

// Spec is what is known of a function before it is called.
type Spec struct {
	Name string // canonical: source.tool or source.resource.action
	// Path is the name as groups, help and patterns read it beside Name: source.resource.action of an MCP tool such as
	// source.list_devices. "": Name.
	Path string
	// Readings are the paths that the name could have, whatever other names its source lists: a rule that restricts
	// matches each of them, and does not depend on the list.
	Readings []string
	// SessionPath stands for Path in groups and help where a function is that of a client's own session, whose list reads
	// it in another way than the source's. No rule that grants matches it. "": Path.
	SessionPath string
	Description string          // a sentence or two for the agent; a registry cuts it to schema.MaxDescription bytes
	Keywords    []string        // more words that a search finds it by, such as an operationId; never shown
	Input       json.RawMessage // JSON Schema of the arguments object (draft 4 to 2020-12, OpenAPI 3.0); empty: any object
	Output      json.RawMessage // JSON Schema of the result; empty: unknown

	Effect         Effect
	EffectDeclared bool // the effect was declared (annotation, configuration, method), not assumed
	reclassified   bool // the configuration gave another effect than the source
	Idempotent     bool // safe to repeat though it writes
	Deletes        bool // a function that destroys deletes what it is called for, as an HTTP DELETE does; a name may say so as well
	Tier           Tier
	Local          bool   // a call reaches nothing outside this machine; false: nobody says so
	Expression     string // the argument that is an expression: Check judges the names in it; empty: none
	Heavy          string // when a result becomes a probe: "" and "auto" (when it does not fit), "always", "never"

	Timeout  time.Duration // of one call, where the step has no timeoutMs; 0: the server's
	CacheTTL time.Duration // how long an answer may be given again by the call cache; 0: never

	// Undo is the call that takes one of this function back, where the step says nothing else; nil: nothing does.
	Undo *Undo
	// Idempotency says how a repetition of a call is told apart from another call; nil: it cannot be.
	Idempotency *Idempotency
	// Approve says which of the function's calls a caller has to approve: ApproveNever, ApproveDestroy or ApproveWrite; "": as the
	// server says.
	Approve string

	// Aliases are further names of top-level arguments: the name that is accepted → the name that the schema declares. A
	// name that the schema declares is never taken for another, and an alias never wins over a key that was given.
	Aliases map[string]string
	// Defaults is a JSON object of arguments that stand in where a call does not give them; empty: none.
	Defaults json.RawMessage

	// Saved makes a saved chain of the function; nil: it is none.
	Saved *SavedChain

	// Listing is the tool as its MCP server listed it, a JSON object; empty: no tool of an MCP server. It is what a client sees
	// that is shown the tool as it is.
	Listing json.RawMessage

	// Check says before anything runs what is wrong with arguments that fit the schema, such as a pattern that does not
	// compile; nil: nothing more can be said. The fault's At lies within the arguments. known tells of a JSON Pointer
	// whether its value is known yet; where it is not, a null or an empty string stands in its place, and keys are known
	// wherever the object that holds them is. Check must neither change nor keep the arguments, and do little work.
	Check func(args []byte, known func(at string) bool) *fault.Error

	// Redact returns the arguments, a copy if there is something to hide, as recordings, logs and errors may show them: hide is given each secret as a
	// JSON value, and returns the JSON value that stands in its place; within a text that value's text stands there, its
	// content if it is a string. nil: there is nothing to hide.
	Redact func(args []byte, hide func(value []byte) []byte) []byte
}

// Undo is a call that takes another back.
type Undo struct {
	Function string
	Args     json.RawMessage // may refer to $result; empty: {}
}

// Idempotency is how a function is told that a call is a repetition: one of Header and Argument is set.
type Idempotency struct {
	Header   string        // of the HTTP request, such as Idempotency-Key
	Argument string        // a top-level argument
	TTL      time.Duration // how long the service knows a key; 0: always
}

// The values of Spec.Approve: which calls need approval.
const (
	ApproveNever   = "never"
	ApproveDestroy = "destroy"
	ApproveWrite   = "write" // and destroy
)

// Repeatable reports whether a call may be made again by itself after a failure: it reads, or is declared idempotent.
func (s *Spec) Repeatable() bool { return s.Effect == Read || s.Idempotent }

// Source is the part of the name before its first dot: the source that offers the function. A name without a dot has
// none.
func (s *Spec) Source() string {
	source, _, found := strings.Cut(s.Name, ".")
	if !found {
		return ""
	}
	return source
}

// matches reports whether a pattern (package pattern) fits the name or the path. Rules that grant use it.
func (s *Spec) matches(rule string) bool {
	return pattern.Fits(rule, s.Name) || s.Path != "" && pattern.Fits(rule, s.Path)
}

// matchesReading reports whether a pattern fits any reading of the name. Rules that restrict use it beside matches.
func (s *Spec) matchesReading(rule string) bool {
	return slices.ContainsFunc(s.Readings, func(path string) bool { return pattern.Fits(rule, path) })
}

// MinimumTier is the tier that a caller needs: Tier, or what follows from the effect where that is TierDefault.
func (s *Spec) MinimumTier() Tier {
	switch {
	case s.Tier != TierDefault:
		return s.Tier
	case s.Effect == Read:
		return TierRead
	}
	return TierReadWrite
}

// Call is one raw call of a function. It gets the arguments as a compact JSON object, which it must neither change nor
// keep, and returns one JSON value. It must return soon after ctx is done. It may be called by many goroutines at once.
// Time limits, panics, checks of arguments and results, and the wrapping of errors are not its concern: Entry.Call does
// that for all.
type Call func(ctx context.Context, args []byte) (result []byte, err error)

// Function is what a source offers: a spec and one raw call.
type Function struct {
	Spec
	Call Call
	// Prompt promises that Call returns within 100 ms of the end of its context, whatever happens. It is then called on the
	// caller's goroutine; any other function gets a goroutine of its own, that its caller can leave.
	Prompt bool
}

// Source offers functions. Package stepstest holds the conformance suite that every source passes.
type Source interface {
	// Functions returns the functions that are known now.
	Functions() []Function
	// Close frees what the source holds. It may be called more than once; calls after it fail with unavailable.
	Close() error
}
