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

// sealArguments returns args with each secret replaced by its mark, and appends the secret arguments to hidden as plain text. The string
// "[redacted]" is left as it is: in a recording without a salt, it stands for any secret.
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

// markPattern matches the mark of a secret, {"secret":"<digest>"}, as a JSON object or with escaped quotes inside a JSON string.
var markPattern = regexp.MustCompile(`\{\\?"secret\\?":\\?"([A-Za-z0-9_-]{24})\\?"\}`)

// quoteMarks turns each mark in a JSON value from an object into a string that contains it; marks inside strings stay.
func quoteMarks(value json.RawMessage) json.RawMessage {
	return markPattern.ReplaceAllFunc(value, func(mark []byte) []byte {
		if bytes.IndexByte(mark, '\\') >= 0 {
			return mark // already inside a string
		}
		text, _ := json.Marshal(string(mark)) // marshaling a string never fails
		return text
	})
}

// sameArguments reports whether args, sealed like the recorded arguments, equal them although the digests of the two calls differ. They
// may differ because a mark stands for an argument that is no longer known to be secret, or for a configured secret that is missing.
// Values that turn out to be secret are appended to hidden.
func (c *Cassette) sameArguments(seal *secret.Seal, recorded, args gjson.Result, hidden *[]string) bool {
	isUnsalted := seal == c.unsalted
	if isUnsalted && recorded.Type == gjson.String && recorded.Str == secret.Redacted {
		return true
	}
	if digest := secret.DigestOf([]byte(recorded.Raw)); digest != "" {
		switch {
		case secret.DigestOf([]byte(args.Raw)) == digest:
			return true // the same secret
		case !args.Exists() || args.Type == gjson.Null || args.Type == gjson.String && args.Str == "":
			return c.missingDigests[digest] // the secret may no longer be configured
		case secret.DigestOf(seal.Mark(canonicalText([]byte(args.Raw)))) != digest:
			return false // another value
		}
		// the same value, which is no longer known to be secret
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
			same = c.sameArguments(seal, value, given[key.Str], hidden)
			delete(given, key.Str)
			return same
		})
		return same && len(given) == 0
	case recorded.IsArray() && args.IsArray():
		recordedItems, items := recorded.Array(), args.Array()
		if len(recordedItems) != len(items) {
			return false
		}
		for i := range recordedItems {
			if !c.sameArguments(seal, recordedItems[i], items[i], hidden) {
				return false
			}
		}
		return true
	case recorded.Type == gjson.String && args.Type == gjson.String:
		if isUnsalted && recorded.Str == markPattern.ReplaceAllString(args.Str, secret.Redacted) {
			return true
		}
		return recorded.Str == args.Str || c.withoutMarks(recorded.Str) == args.Str
	}
	return bytes.Equal(canonicalText([]byte(recorded.Raw)), canonicalText([]byte(args.Raw)))
}

// withoutMarks returns text without the marks in c.missingDigests, whose secrets may no longer be configured.
func (c *Cassette) withoutMarks(text string) string {
	return markPattern.ReplaceAllStringFunc(text, func(mark string) string {
		if c.missingDigests[markPattern.FindStringSubmatch(mark)[1]] {
			return ""
		}
		return mark
	})
}

// fault returns the recorded failure as an error. A code that this version does not know becomes function_failed.
func (l *failure) fault() *fault.Error {
	f := &fault.Error{Code: fault.Code(l.Code), Message: l.Message, At: l.At, Status: l.Status, Outcome: fault.Outcome(l.Outcome),
		Body:      l.Body,
		Available: l.Available, Nearest: l.Nearest}
	if !slices.Contains(fault.Codes(), f.Code) {
		f.Code = fault.FunctionFailed
	}
	return f
}
