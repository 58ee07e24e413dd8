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
	// MinLength is the least length, in bytes, of what a scrubber looks for: shorter texts are found in data by chance.
	MinLength = 6
	// minDigits is the length from which on a number that merely contains a secret is replaced.
	minDigits = 12
)

// Redacted stands in the place of a secret.
const Redacted = "[redacted]"

// Scrubber takes secrets out of what leaves onecall. nil takes out nothing. It may be used by many goroutines.
type Scrubber struct {
	needles []string // longest first: a secret may hold another
	numbers []string // secrets that may be numbers
}

// New makes a scrubber of these texts and their parts (see Parts), as they are and in the spellings that JSON, URLs and
// base64 have for them; in base64 also as a part of what is encoded. What is shorter than MinLength is not looked for.
func New(secrets []string) *Scrubber {
	s := &Scrubber{}
	for _, secret := range secrets {
		for _, part := range Parts(secret) {
			if isNumber(part) {
				s.numbers = append(s.numbers, part)
			}
			s.needles = append(s.needles, spellings(part, MinLength)...)
		}
	}
	if len(s.needles) == 0 {
		return nil
	}
	s.needles = longestFirst(s.needles)
	return s
}

// With returns a scrubber that looks for these secrets too. It spells only these; s does not change.
func (s *Scrubber) With(secrets []string) *Scrubber {
	more := New(secrets)
	switch {
	case s == nil:
		return more
	case more == nil:
		return s
	}
	return &Scrubber{needles: longestFirst(slices.Concat(s.needles, more.needles)), numbers: slices.Concat(s.numbers, more.numbers)}
}

// longestFirst sorts texts, and drops those that are there twice.
func longestFirst(texts []string) []string {
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(texts)
}

// Text returns a text that is not JSON without the secrets; text itself if there are none in it.
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

// JSON returns a JSON value without the secrets: it stays JSON. They are looked for in strings and keys, however these are
// escaped; a number that is one, or a number with a long one in it, becomes a string. It returns value itself if there are
// none in it, and takes what is not JSON for a text.
func (s *Scrubber) JSON(value []byte) []byte {
	if s == nil || len(value) == 0 || !s.suspects(value) {
		return value
	}
	if !gjson.ValidBytes(value) {
		return []byte(s.Text(string(value)))
	}
	out, kept := []byte(nil), 0 // value[:kept] is in out
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
			out, kept = rawjson.AppendQuote(append(out, value[kept:start]...), shown), end
		}
	}
	if kept == 0 {
		return value
	}
	return append(out, value[kept:]...)
}

// inNumber reports whether a number or literal is a secret, or contains a long one.
func (s *Scrubber) inNumber(token string) bool {
	return slices.ContainsFunc(s.numbers, func(secret string) bool {
		return token == secret || len(secret) >= minDigits && strings.Contains(token, secret)
	})
}

// suspects reports whether a value may hold a secret: it does as it stands, or has escapes.
func (s *Scrubber) suspects(value []byte) bool {
	if bytes.IndexByte(value, '\\') >= 0 {
		return true
	}
	return slices.ContainsFunc(s.needles, func(needle string) bool { return bytes.Contains(value, []byte(needle)) })
}

// Longest returns the length of the longest spelling of a secret.
func (s *Scrubber) Longest() int {
	if s == nil {
		return 0
	}
	return len(s.needles[0])
}

// Settled returns the length of the beginning of a text that can be scrubbed before the rest of the text is known: no secret
// that begins in it ends after it.
func (s *Scrubber) Settled(text string) int {
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
