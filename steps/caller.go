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
	Tier Tier // the highest tier that the caller may use; TierDefault: TierRead
	// Functions holds patterns of function names (see package pattern), separated by blanks; Patterns builds it. They match
	// the names that onecall shows, after renaming, or the functions' paths. "": all functions of the tier.
	Functions string
}

// Caller is who sent a request.
type Caller struct {
	// ID identifies the caller in results, sessions, rate limits, logs and info: "token:NAME" of the token table,
	// "jwt:SUBJECT@ISSUER" of a JWT, whichever client of the subject sent it. ISSUER is the first 8 hex digits of the
	// SHA-256 of the issuer's name; as a subject may contain @, it ends at the last one. Callers without tokens have a
	// fixed name, such as "http".
	ID string
	Rights
	Expires time.Time // when the token expires; zero: never
}

// ErrScope is wrapped by the error of a token verifier if the token is valid but grants no rights here (RFC 6750, section
// 3.1: insufficient_scope, HTTP 403).
var ErrScope = errors.New("insufficient_scope")

// Allows reports whether a caller with these rights may use a function: its tier is not above theirs, and a pattern matches
// its name. For the sample "SOURCE.\x00" (View.SampleSpec) it reports whether a pattern could match a function of that
// source.
func (r Rights) Allows(spec *Spec) bool {
	if spec.MinimumTier() > max(r.Tier, TierRead) {
		return false
	}
	if r.Functions == "" {
		return true
	}
	prefix, sample := strings.CutSuffix(spec.Name, "\x00")
	for one := range strings.FieldsSeq(r.Functions) {
		if sample && pattern.CouldFit(one, prefix) || !sample && spec.matches(one) {
			return true
		}
	}
	return false
}

// WithDefaultTier replaces TierDefault by the tier that it stands for, so that equal rights are equal (==).
func (r Rights) WithDefaultTier() Rights {
	r.Tier = max(r.Tier, TierRead)
	return r
}

// Patterns joins a list into Rights.Functions, in its order; nil is all functions. Faults are bad_request: At "/N" of the
// list for a pattern that no name can match, At "" for an empty list, which must not mean all.
func Patterns(list []string) (functions string, faults []*fault.Error) {
	if list != nil && len(list) == 0 {
		return "", []*fault.Error{fault.New(fault.BadRequest, "the list of functions is empty: leave it out where all are meant, or name some")}
	}
	for i, one := range list {
		if f := pattern.Check(one); f != nil {
			faults = append(faults, f.Under(fault.Index("", i)))
		}
	}
	return strings.Join(list, " "), faults
}

// Unused returns a fault for each pattern that matches none of names, the known functions, and could match no function of
// the absent sources, whose functions are not known: unknown_function, At "/N" of the list that Patterns received, with the
// nearest names.
func (r Rights) Unused(names, absent []string) []*fault.Error {
	var unused []*fault.Error
	for i, one := range strings.Fields(r.Functions) {
		if slices.ContainsFunc(names, func(name string) bool { return pattern.Fits(one, name) }) ||
			slices.ContainsFunc(absent, func(source string) bool { return pattern.CouldFit(one, source+".") }) {
			continue
		}
		f := fault.New(fault.UnknownFunction, "%q fits no function", one).Under(fault.Index("", i))
		f.Nearest = fault.Nearest(one, names, 3)
		unused = append(unused, f)
	}
	return unused
}
