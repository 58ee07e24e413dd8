package steps

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// Rights are what a caller may use. Callers of equal rights (==) are shown the same.
type Rights struct {
	Tier Tier // the highest that it may use; TierDefault: TierRead
	// Functions are patterns of the names of the functions that it may use, as Fits reads them, separated by blanks
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
	for pattern := range strings.FieldsSeq(r.Functions) {
		if sample && couldFit(pattern, prefix) || !sample && spec.Matches(pattern) {
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

// couldFit reports whether the pattern fits any name that begins with prefix and is longer: where they both have
// characters before the pattern's first *, they must agree, and there must be pattern left for the rest of the name.
func couldFit(pattern, prefix string) bool {
	head, _, open := strings.Cut(pattern, "*")
	most, length := utf8.RuneCountInString(head), utf8.RuneCountInString(prefix)
	both := min(most, length)
	return (open || most > length) && Fits(firstRunes(head, both), firstRunes(prefix, both))
}

// firstRunes is the first n characters of a text.
func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// maxPattern bounds a pattern in bytes: no function's name is longer.
const maxPattern = 256

// Patterns makes Rights.Functions of a list, in its order; nil is all functions. Faults: bad_request, At "/N" of the list:
// a pattern that no name can fit; at "" for a list that is empty, which must not mean all.
func Patterns(list []string) (functions string, faults []*fault.Error) {
	if list != nil && len(list) == 0 {
		return "", []*fault.Error{fault.New(fault.BadRequest, "the list of functions is empty: leave it out where all are meant, or name some")}
	}
	for i, pattern := range list {
		if f := checkPattern(pattern); f != nil {
			faults = append(faults, f.Under(fault.Index("", i)))
		}
	}
	return strings.Join(list, " "), faults
}

func checkPattern(pattern string) *fault.Error {
	unfit := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	switch {
	case pattern == "":
		return fault.New(fault.BadRequest, "a pattern of function names is empty: write * where all functions are meant")
	case len(pattern) > maxPattern:
		return fault.New(fault.BadRequest, "a pattern of function names is longer than %d bytes: no name is", maxPattern)
	case !utf8.ValidString(pattern) || strings.ContainsFunc(pattern, unfit):
		return fault.New(fault.BadRequest, "the pattern %q holds blanks or control characters, which no function's name has: write one pattern an entry", pattern)
	}
	return nil
}

// Unused tells of the patterns of these rights that fit none of names, the functions that are there, and could fit none of
// the sources named by absent, whose functions are not known: unknown_function, At "/N" of the list that Patterns was given,
// with the nearest of names.
func (r Rights) Unused(names, absent []string) []*fault.Error {
	var unused []*fault.Error
	for i, pattern := range strings.Fields(r.Functions) {
		if slices.ContainsFunc(names, func(name string) bool { return Fits(pattern, name) }) ||
			slices.ContainsFunc(absent, func(source string) bool { return couldFit(pattern, source+".") }) {
			continue
		}
		f := fault.New(fault.UnknownFunction, "%q fits no function", pattern).Under(fault.Index("", i))
		f.Nearest = fault.Nearest(pattern, names, 3)
		unused = append(unused, f)
	}
	return unused
}
