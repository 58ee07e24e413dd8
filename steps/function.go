// Package steps holds the functions that a chain's steps can call: their specs (name, schemas, effect, tier), the registry
// that resolves names and is narrowed to the functions that a caller may use, compiled argument checks, one-line signatures, and the
// guarded call that adds time limits, panic recovery and coded errors to every source. It knows nothing of chains,
// references or tokens. Each source is a package below it.
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

// Effect is what a call may do to the world. The zero value is Write: an unknown function is assumed to write.
type Effect uint8

// The effects, as configurations and recordings spell them.
const (
	Write   Effect = iota // "write": changes something
	Read                  // "read": changes nothing
	Destroy               // "destroy": removes or overwrites something for good
)

var effectNames = [...]string{Write: "write", Read: "read", Destroy: "destroy"}

type effectKey struct{}

// EffectOf returns the effect of the function that ctx calls: the configured effect if it overrides the source's, else declared.
func EffectOf(ctx context.Context, declared Effect) Effect {
	if effect, ok := ctx.Value(effectKey{}).(Effect); ok {
		return effect
	}
	return declared
}

// WithEffect returns a context whose EffectOf is effect, for a source that knows a function's effect better than what it calls for it.
func WithEffect(ctx context.Context, effect Effect) context.Context {
	return context.WithValue(ctx, effectKey{}, effect)
}

// String returns "write", "read" or "destroy".
func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return effectNames[Write]
}

// ParseEffect parses a word that String returns; bad_request for anything else.
func ParseEffect(word string) (Effect, error) {
	for e, name := range effectNames {
		if word == name {
			return Effect(e), nil
		}
	}
	return Write, unknownWord("effect", word, effectNames[:])
}

// Tier is the level of rights that a function requires and that a caller has. Tiers are ordered: a caller may use functions
// at or below its own.
type Tier uint8

// The tiers.
const (
	TierDefault   Tier = iota // a function's tier follows from its effect (read: TierRead, else TierReadWrite)
	TierRead                  // "read"
	TierReadWrite             // "read_write"
	TierAdmin                 // "admin": by configuration only
)

var tierNames = [...]string{TierDefault: "", TierRead: "read", TierReadWrite: "read_write", TierAdmin: "admin"}

// String returns "read", "read_write" or "admin", and "" for TierDefault.
func (t Tier) String() string {
	if int(t) < len(tierNames) {
		return tierNames[t]
	}
	return tierNames[TierAdmin]
}

// ParseTier parses a word that String returns; bad_request for anything else. "" is also an error, because a misspelled tier must
// not grant anything.
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

// Spec describes a function.
type Spec struct {
	Name string // canonical: source.tool or source.resource.action
	// OwnName is the source and the name as its server spells it, if a function cannot have that name: docs.ctx:get for
	// docs.ctx_get_1a2b3c4d. It is found by this name too, and patterns match it. "": Name.
	OwnName string
	// Path is the alternative name in groups, help and patterns: source.resource.action for an MCP tool such as
	// source.list_devices. "": Name.
	Path string
	// PossiblePaths are all paths that the name could have, whatever other names its source lists. A rule that restricts applies if it
	// matches any of them, so that it does not depend on those other names.
	PossiblePaths []string
	// SessionPath replaces Path in groups and help if a client's own session gives the function another path. Rules that grant do
	// not match it. "": Path.
	SessionPath string
	Description string          // one or two sentences for the agent; see RegistryOptions.MaxDescription
	Keywords    []string        // more words that a search matches, such as an operationId; never shown
	Input       json.RawMessage // JSON Schema of the arguments object (draft 4 to 2020-12, OpenAPI 3.0); empty: any object
	Output      json.RawMessage // JSON Schema of the result; empty: unknown

	// Results are the forms of the result that the function can give, its own first; nil: it has one. Result is the form that the
	// configuration chose; "": its own. OutputIgnored reports that the configuration left out the schema.
	Results       []string
	Result        string
	OutputIgnored bool

	Effect           Effect
	EffectDeclared   bool // the effect was declared (annotation, configuration, method), not assumed
	effectOverridden bool // the configuration changed the effect that the source declared
	Idempotent       bool // safe to repeat although it writes
	Deletes          bool // a call deletes its target, like an HTTP DELETE
	Tier             Tier
	TakesMarks       bool   // Call gets marks in place of the bytes of blocks, and finds these itself (Blocks.Marked, Blocks.Expand)
	Local            bool   // a call reaches nothing outside this machine; false: unknown
	Expression       string // the argument that is an expression; Check checks its names. Empty: none
	ChainOnly        bool   // it serves other steps of a chain: no surface shows it as a tool, and it belongs to no group
	Heavy            string // when a result becomes a probe: "" and "auto" (when it does not fit), "always", "never"

	// Answer says what of the function's result an answer shows, if its result is the whole answer; nil: all of it.
	Answer *Excerpt

	// Fields is the argument that takes a list of the members of the result, or of its elements, to answer; "": there is none.
	Fields string

	Timeout time.Duration // how long one call may take if the step has no timeoutMs; 0: DefaultTimeout
	// DefaultTimeout is the limit without Timeout; 0: the server's. Patient: signs of life put that limit off (see WithPatience).
	DefaultTimeout time.Duration
	Patient        bool
	CacheTTL       time.Duration // how long the call cache may reuse an answer; 0: never

	// Undo is the call that undoes a call of this function, unless the step names another; nil: there is none.
	Undo *Undo
	// Idempotency says how a repeated call is marked; nil: repetitions cannot be marked.
	Idempotency *Idempotency
	// Approve says which calls need approval: ApproveNever, ApproveDestroy, ApproveWrite or ApproveAlways; "": the
	// server's setting.
	Approve string

	// Aliases map further accepted names of top-level arguments to the declared names. A declared name is never an alias,
	// and an alias never overrides an argument that was given.
	Aliases map[string]string
	// Defaults is a JSON object of arguments that a call may leave out; empty: none.
	Defaults json.RawMessage

	// State: the function reads or changes what is kept in the journal's database. A call that writes changes nothing else, in the transaction
	// that records its end. Its arguments key and space say what it changes; without space, it is what $state reads.
	State bool
	// Renews: a resume makes the call again, and does not take its result from the journal: it ends by itself.
	Renews bool

	// Gives are the labels of the result, and Takes the roles of the arguments, which flow rules name. PassesArgs: the result is made of the
	// arguments alone, and has their labels.
	Gives      []Given
	Takes      []Taken
	PassesArgs bool

	// Needs is the name of the credential that each caller needs for itself (see Credential); "": calls carry that of the configuration.
	// Credential identifies the one that calls carry; "": it is no caller's. KeepsCredential: see Credential.Kept. A catalog sets them.
	Needs, Credential string
	KeepsCredential   bool

	// Saved is the saved chain behind the function; nil: it is not a chain.
	Saved *SavedChain

	// Listing is the tool as its MCP server listed it, a JSON object, for clients that see the tool unchanged; empty: not
	// an MCP tool.
	Listing json.RawMessage

	// Check reports, before anything runs, what is wrong with arguments that match the schema, such as a pattern that does not compile. The
	// fault's At is a position in the arguments. known reports whether the value at a JSON Pointer is known yet: an unknown value is null or
	// an empty string in args; the keys of a known object are known. Check must not change or retain the arguments, and must be cheap. nil:
	// there are no further checks.
	Check func(args []byte, known func(at string) bool) *fault.Error

	// Redact returns the arguments as recordings, logs and errors may show them; it copies them if it hides something. hide receives each
	// secret as a JSON value and returns the JSON value to show instead. If a secret is part of a longer text, only that part is replaced, by
	// the text of the new value. nil: there is nothing to hide.
	Redact func(args []byte, hide func(value []byte) []byte) []byte
}

// Excerpt says what of a result is shown, as budget.Excerpt does.
type Excerpt struct {
	Keep []string `json:"keep,omitempty"`
	Drop []string `json:"drop,omitempty"`
	Top  int      `json:"top,omitempty"`
}

// Undo is the call that undoes another.
type Undo struct {
	Function string
	Args     json.RawMessage // may refer to $result; empty: {}
	Version  int64           // of state (see ReportUndo): the version of the value that the undo gives back; 0: it gives none back
	Labels   []Label         // of state: those of the value that the undo gives back
}

// Idempotency says how a function learns that a call is a repetition. Either Header or Argument is set.
type Idempotency struct {
	Header   string        // the header of the HTTP request, such as Idempotency-Key
	Argument string        // the top-level argument
	TTL      time.Duration // how long the service remembers a key; 0: forever
}

// The values of Spec.Approve: which calls need approval.
const (
	ApproveNever   = "never"
	ApproveDestroy = "destroy"
	ApproveWrite   = "write"  // calls of functions that write or destroy
	ApproveAlways  = "always" // all calls
)

// Repeatable reports whether a failed call may be retried automatically: it reads, or is declared idempotent.
func (s *Spec) Repeatable() bool { return s.Effect == Read || s.Idempotent }

// Source returns the part of the name before the first dot: the source that offers the function; "" if there is no dot.
func (s *Spec) Source() string {
	source, _, ok := strings.Cut(s.Name, ".")
	if !ok {
		return ""
	}
	return source
}

// matches reports whether a pattern (package pattern) matches the name, the own name or the path. Rules that grant use it.
func (s *Spec) matches(rule string) bool {
	return pattern.Matches(rule, s.Name) || s.OwnName != "" && pattern.Matches(rule, s.OwnName) || s.Path != "" && pattern.Matches(rule, s.Path)
}

// matchesPossiblePath reports whether a pattern matches a possible path. Rules that restrict use it in addition to matches.
func (s *Spec) matchesPossiblePath(rule string) bool {
	return slices.ContainsFunc(s.PossiblePaths, func(path string) bool { return pattern.Matches(rule, path) })
}

// MinimumTier returns the tier that a caller needs: Tier, or the tier of the effect if Tier is TierDefault.
func (s *Spec) MinimumTier() Tier {
	switch {
	case s.Tier != TierDefault:
		return s.Tier
	case s.Effect == Read:
		return TierRead
	}
	return TierReadWrite
}

// Call makes one raw call of a function. args is a compact JSON object that Call must not change or retain. Call returns one
// JSON value, and must return soon after ctx is done. Many goroutines may use it at once. Entry.Call adds time limits, panic
// recovery, checks of arguments and results, and coded errors.
type Call func(ctx context.Context, args []byte) (result []byte, err error)

// Function is what a source offers: a spec and one raw call.
type Function struct {
	Spec
	Call Call
	// Prompt promises that Call always returns within 100 ms of the end of its context. It then runs on the caller's
	// goroutine; other functions run on their own, which the caller can abandon.
	Prompt bool
}

// Source offers functions. Package stepstest holds the conformance suite that every source passes.
type Source interface {
	// Functions returns the currently known functions.
	Functions() []Function
	// Close releases the source's resources. It may be called more than once; later calls of its functions fail with
	// unavailable.
	Close() error
}
