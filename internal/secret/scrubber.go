package secret

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

const (
	// MinLength is the minimum length in bytes of a secret that a scrubber looks for. Shorter texts occur in data by chance.
	MinLength = 6
	// minDigits is the minimum length of a secret that is replaced inside a longer number.
	minDigits = 12
)

// Redacted replaces a secret.
const Redacted = "[redacted]"

// Scrubber removes secrets from what leaves onecall. nil removes nothing. It is safe for concurrent use.
type Scrubber struct {
	needles []string // longest first, because a secret may contain another
	numbers []string // secrets that may be numbers
}

// New returns a scrubber of secrets and their components (see Components), as they are and as encoded by JSON, URLs and base64, in base64
// also as part of a longer text. Secrets shorter than MinLength are ignored. It returns nil if nothing is left to look for.
func New(secrets []string) *Scrubber {
	s := &Scrubber{}
	for _, secret := range secrets {
		for _, component := range Components(secret) {
			if mayBeNumber(component) {
				s.numbers = append(s.numbers, component)
			}
			s.needles = append(s.needles, encodings(component, MinLength)...)
		}
	}
	if len(s.needles) == 0 {
		return nil
	}
	s.needles = longestFirst(s.needles)
	return s
}

// With returns a scrubber that also looks for these secrets. It encodes only these; s does not change.
func (s *Scrubber) With(secrets []string) *Scrubber {
	added := New(secrets)
	switch {
	case s == nil:
		return added
	case added == nil:
		return s
	}
	return &Scrubber{needles: longestFirst(slices.Concat(s.needles, added.needles)), numbers: slices.Concat(s.numbers, added.numbers)}
}

// longestFirst sorts texts by length and removes duplicates.
func longestFirst(texts []string) []string {
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(texts)
}

// Text removes the secrets from a text that is not JSON. It returns text itself if it contains none.
func (s *Scrubber) Text(text string) string {
	if s == nil {
		return text
	}
	for _, needle := range s.needles {
		if strings.Contains(text, needle) {
			text = strings.ReplaceAll(text, needle, Redacted)
		}
	}
	return text
}

// JSON removes the secrets from a JSON value; the result is valid JSON. It checks strings and keys, however they are escaped. A number
// that is a secret, or contains a long one, becomes a string. JSON returns value itself if it contains no secret, and treats invalid JSON
// as text.
func (s *Scrubber) JSON(value []byte) []byte {
	if s == nil || len(value) == 0 || !s.mayContain(value) {
		return value
	}
	if !gjson.ValidBytes(value) {
		return []byte(s.Text(string(value)))
	}
	out, copied := []byte(nil), 0 // value[:copied] is in out
	for start, end := range rawjson.Scalars(value) {
		token := rawjson.View(value[start:end])
		shown := token
		if token[0] == '"' {
			token = rawjson.Unquote(token)
			shown = s.Text(token)
		} else if s.inNumber(token) {
			shown = Redacted
		}
		if shown != token {
			out, copied = rawjson.AppendQuote(append(out, value[copied:start]...), shown), end
		}
	}
	if copied == 0 {
		return value
	}
	return append(out, value[copied:]...)
}

// inNumber reports whether a number or literal is a secret, or contains a long one.
func (s *Scrubber) inNumber(token string) bool {
	return slices.ContainsFunc(s.numbers, func(secret string) bool {
		return token == secret || len(secret) >= minDigits && strings.Contains(token, secret)
	})
}

// mayContain reports whether a value may contain a secret: it does literally, or has escapes.
func (s *Scrubber) mayContain(value []byte) bool {
	if bytes.IndexByte(value, '\\') >= 0 {
		return true
	}
	return slices.ContainsFunc(s.needles, func(needle string) bool { return bytes.Contains(value, []byte(needle)) })
}

// MaxEncoded returns the length in bytes of the longest encoding of a secret; 0 for nil.
func (s *Scrubber) MaxEncoded() int {
	if s == nil {
		return 0
	}
	return len(s.needles[0])
}

// SafePrefix returns the length of the longest prefix of a text that can be scrubbed before what follows is known: no secret that begins in
// the prefix ends after it.
func (s *Scrubber) SafePrefix(text string) int {
	n := len(text)
	if s == nil {
		return n
	}
	for moved := true; moved; {
		moved = false
		for _, needle := range s.needles {
			for i := max(n-len(needle)+1, 0); i < n; i++ {
				if rest := text[i:]; strings.HasPrefix(rest, needle) || strings.HasPrefix(needle, rest) {
					n, moved = i, true
					break
				}
			}
		}
	}
	return n
}
