package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// redaction copies arguments and replaces each secret with the value that hide returns.
type redaction = func(args []byte, hide func(value []byte) []byte) []byte

func redactionOf(spec *steps.Spec) redaction {
	if spec.Redact != nil {
		return spec.Redact
	}
	return secret.Redaction(spec.Input)
}

// sealArguments returns arguments with marks instead of secrets, and adds the secrets that were arguments to hidden, as texts. A [redacted]
// stays: in old recordings it stands for any secret.
func sealArguments(seal *secret.Seal, redact redaction, args []byte, configured []string, hidden *[]string) []byte {
	shown := redact(args, func(value []byte) []byte {
		if string(value) == `"`+secret.Redacted+`"` {
			return value
		}
		*hidden = append(*hidden, secret.Texts(value)...)
		return seal.Mark(canonicalText(value))
	})
	return seal.HideConfigured(shown, configured, canonicalText)
}

// canonicalText returns the canonical form of a JSON value; the value itself if it has none.
func canonicalText(value []byte) []byte {
	compact, err := schema.Compact(value)
	if err != nil {
		return value
	}
	text, err := appendCanonical(nil, compact)
	if err != nil {
		return value
	}
	return text
}

func longestFirst(secrets []string) []string {
	return slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
}

// markPattern matches a mark as JSON, and as a text within JSON.
var markPattern = regexp.MustCompile(`\{\\?"secret\\?":\\?"([A-Za-z0-9_-]{24})\\?"\}`)

// textMarks converts the marks in a JSON value to texts.
func textMarks(value json.RawMessage) json.RawMessage {
	return markPattern.ReplaceAllFunc(value, func(mark []byte) []byte {
		if bytes.IndexByte(mark, '\\') >= 0 {
			return mark // it is within a text
		}
		text, _ := json.Marshal(string(mark)) // of a string: never fails
		return text
	})
}

// sameCall reports whether a call equals a recorded call although their digests differ, because a mark stands for an argument that is no
// longer known to be secret, or for a configured secret that is missing. args are sealed like the recorded ones.
func (c *Cassette) sameCall(one *call, recorded, args gjson.Result, hidden *[]string) bool {
	isOld := one.seal == c.unsalted
	if isOld && recorded.Type == gjson.String && recorded.Str == secret.Redacted {
		return true
	}
	if digest := secret.DigestOf([]byte(recorded.Raw)); digest != "" {
		switch {
		case secret.DigestOf([]byte(args.Raw)) == digest:
			return true
		case !args.Exists() || args.Type == gjson.Null || args.Type == gjson.String && args.Str == "":
			return c.missingDigests[digest]
		case secret.DigestOf(one.seal.Mark(canonicalText([]byte(args.Raw)))) != digest:
			return false
		}
		*hidden = append(*hidden, secret.Texts([]byte(args.Raw))...)
		return true
	}
	switch {
	case !args.Exists():
		return false
	case recorded.IsObject() && args.IsObject():
		given := args.Map()
		same := true
		recorded.ForEach(func(key, value gjson.Result) bool {
			same = c.sameCall(one, value, given[key.Str], hidden)
			delete(given, key.Str)
			return same
		})
		return same && len(given) == 0
	case recorded.IsArray() && args.IsArray():
		theirs, ours := recorded.Array(), args.Array()
		if len(theirs) != len(ours) {
			return false
		}
		for i := range theirs {
			if !c.sameCall(one, theirs[i], ours[i], hidden) {
				return false
			}
		}
		return true
	case recorded.Type == gjson.String && args.Type == gjson.String:
		if isOld && recorded.Str == markPattern.ReplaceAllString(args.Str, secret.Redacted) {
			return true
		}
		return recorded.Str == args.Str || c.withoutMarks(recorded.Str) == args.Str
	}
	return bytes.Equal(canonicalText([]byte(recorded.Raw)), canonicalText([]byte(args.Raw)))
}

// withoutMarks removes from a text the marks of secrets that may no longer be configured.
func (c *Cassette) withoutMarks(text string) string {
	return markPattern.ReplaceAllStringFunc(text, func(mark string) string {
		if c.missingDigests[markPattern.FindStringSubmatch(mark)[1]] {
			return ""
		}
		return mark
	})
}

// fault returns the error that a call was answered with.
func (l *failure) fault() *fault.Error {
	f := &fault.Error{Code: fault.Code(l.Code), Message: l.Message, At: l.At, Status: l.Status, Outcome: fault.Outcome(l.Outcome),
		Body:      l.Body,
		Available: l.Available, Nearest: l.Nearest}
	if !slices.Contains(fault.Codes(), f.Code) {
		f.Code = fault.FunctionFailed
	}
	return f
}
