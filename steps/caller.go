package steps

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// Rights are what a caller may use. Callers of equal rights (==) are shown the same.
type Rights struct {
	Tier Tier // the highest that it may use; TierDefault: TierRead
	// Functions are patterns of the names of the functions that it may use, as package pattern reads them, separated by blanks
	// (see Patterns): the names that onecall shows, after renaming, or the functions' paths. "": all functions of the tier.
	Functions string
}

// Caller is who has sent a request.
type Caller struct {
	// ID is what results, sessions and rates are bound to, and by which logs and info name the caller: "token:NAME" of the
	// table, "jwt:SUBJECT@ISSUER" of a JWT, whichever client of the subject has sent it. ISSUER is the first 8 hex digits of
	// the SHA-256 of the issuer's name; a subject may hold an @ itself, so that it ends at the last one. Callers without tokens
	// have a name of their own, such as "http".
	ID string
	Rights
	Expires time.Time // from then on the token is not accepted any more; zero: never
}

// ErrScope is inside the error of whoever verifies tokens (errors.Is): the token is valid, and gives no rights here
// (RFC 6750, section 3.1: insufficient_scope, HTTP 403).
var ErrScope = errors.New("insufficient_scope")

// Allows reports whether callers of these rights may use a function: its tier is not above theirs, and one of the patterns
// fits its name. Of View's sample for a source of which no function is known yet, "SOURCE.\x00", it reports whether a
// pattern could fit the name of a function of that source.
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

// Settled are the rights with the tier that TierDefault stands for, so that equal rights are equal (==).
func (r Rights) Settled() Rights {
	r.Tier = max(r.Tier, TierRead)
	return r
}

// Patterns makes Rights.Functions of a list, in its order; nil is all functions. Faults: bad_request, At "/N" of the list:
// a pattern that no name can fit; at "" for a list that is empty, which must not mean all.
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

// Unused tells of the patterns of these rights that fit none of names, the functions that are there, and could fit none of
// the sources named by absent, whose functions are not known: unknown_function, At "/N" of the list that Patterns was given,
// with the nearest of names.
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
