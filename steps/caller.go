package steps

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// Rights say which functions a caller may use. Callers with equal rights (==) see the same functions.
type Rights struct {
	Tier Tier // the highest tier that the caller may use; TierDefault means TierRead
	// Functions holds patterns of function names (see package pattern), separated by blanks; Patterns builds it. They match
	// the names that onecall shows, after renaming, or the functions' paths. "": all functions of the tier.
	Functions string
	// Plans: the caller may use signed chains (SavedChain.Signed), whatever these call, and nothing else. It takes the place of Tier.
	Plans bool
	// Credentials identify what the request brings for sources that are called as their callers: the IDs of Credential, separated by blanks.
	// They are those of this request, and no setting of the caller. "": it brings nothing.
	Credentials string
}

// Caller is the sender of a request.
type Caller struct {
	// ID identifies the caller in results, sessions, rate limits, logs and info: "token:NAME" for a token of the token table,
	// "jwt:SUBJECT@ISSUER" for a JWT. All clients of a subject share its ID. ISSUER is the first 8 hex digits of the SHA-256 of the issuer's
	// name. A subject may contain @; the last @ ends it. Callers without tokens have a fixed name, such as "http".
	ID string
	Rights
	Expires time.Time // when the token expires; zero: never
	Decides bool      // may approve, deny, resume and undo its runs in the console
	// DecidesFor has the ids of other callers whose runs it may see, approve and deny there, separated by line feeds; "": none. With it,
	// callers stay comparable.
	DecidesFor string
}

// ErrScope is wrapped by the error of a token verifier if the token is valid but grants no rights here (RFC 6750, section
// 3.1: insufficient_scope, HTTP 403).
var ErrScope = errors.New("insufficient_scope")

// Allows reports whether a caller with these rights may use a function: its tier is not above the caller's, or it is a signed chain and the
// caller may use those, and a pattern matches its name. For the sample "SOURCE.\x00" (View.SampleSpec) it reports whether a pattern could
// match a function of that source.
func (r Rights) Allows(spec *Spec) bool {
	switch {
	case r.Plans && (spec.Saved == nil || spec.Saved.Signed == ""):
		return false
	case !r.Plans && spec.MinimumTier() > max(r.Tier, TierRead):
		return false
	}
	if r.Functions == "" {
		return true
	}
	prefix, sample := strings.CutSuffix(spec.Name, "\x00")
	for rule := range strings.FieldsSeq(r.Functions) {
		if sample && pattern.CouldMatch(rule, prefix) || !sample && spec.matches(rule) {
			return true
		}
	}
	return false
}

// WithDefaultTier replaces TierDefault with TierRead, so that equal rights are equal (==).
func (r Rights) WithDefaultTier() Rights {
	r.Tier = max(r.Tier, TierRead)
	return r
}

// Patterns joins a list into Rights.Functions, in its order; nil means all functions. Faults are bad_request. At is "/N" for a pattern that
// no name can match, where N is its index, and "" for an empty list, which must not mean all functions.
func Patterns(list []string) (functions string, faults []*fault.Error) {
	if list != nil && len(list) == 0 {
		return "", []*fault.Error{fault.New(fault.BadRequest, "the list of functions is empty: leave it out to allow all, or name some")}
	}
	for i, rule := range list {
		if f := pattern.Check(rule); f != nil {
			faults = append(faults, f.Under(fault.Index("", i)))
		}
	}
	return strings.Join(list, " "), faults
}

// Equal reports whether two callers have the same rights, whatever credentials their requests bring.
func (r Rights) Equal(other Rights) bool {
	other.Credentials = r.Credentials
	return r == other
}

// Unused returns a fault for each pattern that matches neither a name in names, the known functions, nor any possible function of an absent
// source. The fault is unknown_function with the nearest names; At is "/N" of the list that Patterns received.
func (r Rights) Unused(names, absent []string) []*fault.Error {
	var unused []*fault.Error
	for i, rule := range strings.Fields(r.Functions) {
		if slices.ContainsFunc(names, func(name string) bool { return pattern.Matches(rule, name) }) ||
			slices.ContainsFunc(absent, func(source string) bool { return pattern.CouldMatch(rule, source+".") }) {
			continue
		}
		f := fault.New(fault.UnknownFunction, "%q matches no function", rule).Under(fault.Index("", i))
		f.Nearest = fault.Nearest(rule, names, 3)
		unused = append(unused, f)
	}
	return unused
}
