package http

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// leastHidden is the length in bytes from which on a hidden value is looked for in a result: a shorter one would be found
// by chance.
const leastHidden = 8

// scrubber replaces secrets in what is shown. A nil *scrubber knows of none.
type scrubber struct {
	secrets  []string // as they may be spelled, the longest first
	replacer *strings.Replacer
}

func newScrubber(hidden []string) *scrubber {
	secrets := spellings(hidden)
	if len(secrets) == 0 {
		return nil
	}
	pairs := make([]string, 0, 2*len(secrets))
	for _, secret := range secrets {
		pairs = append(pairs, secret, redacted)
	}
	return &scrubber{secrets, strings.NewReplacer(pairs...)}
}

// text replaces the secrets in a text.
func (s *scrubber) text(text string) string {
	if s == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// fault replaces the secrets in what an error shows.
func (s *scrubber) fault(err error) error {
	f, ok := fault.As(err)
	if s == nil || !ok {
		return err
	}
	shown := *f
	shown.Message, shown.Body = s.text(f.Message), s.json(f.Body)
	return &shown
}

// json replaces the secrets in the strings, names and numbers of a JSON value, of which it changes no byte.
func (s *scrubber) json(result []byte) []byte {
	if s == nil || !s.suspects(result) {
		return result
	}
	out := make([]byte, 0, len(result))
	for i := 0; i < len(result); {
		end := tokenEnd(result, i)
		token := string(result[i:end])
		switch c := token[0]; {
		case c == '"':
			if plain := gjson.Parse(token).Str; s.replacer.Replace(plain) != plain {
				token = string(quote(s.replacer.Replace(plain)))
			}
		case (c == '-' || c >= '0' && c <= '9') && slices.Contains(s.secrets, token):
			token = string(quote(redacted))
		}
		out = append(out, token...)
		i = end
	}
	return out
}

// suspects tells whether a JSON value may hold a secret: it stands there as it is, or escapes may hide it.
func (s *scrubber) suspects(result []byte) bool {
	if bytes.IndexByte(result, '\\') >= 0 {
		return true
	}
	return slices.ContainsFunc(s.secrets, func(secret string) bool { return bytes.Contains(result, []byte(secret)) })
}

// tokenEnd is the end of the string or of the run of other bytes that begins at a place in JSON: a number, a word,
// punctuation.
func tokenEnd(text []byte, start int) int {
	i := start + 1
	switch {
	case text[start] == '"':
		for ; i < len(text) && text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		return min(i+1, len(text))
	case bytes.IndexByte([]byte("{}[],: \t\r\n"), text[start]) >= 0:
		return i
	}
	for i < len(text) && bytes.IndexByte([]byte("{}[],: \t\r\n\""), text[i]) < 0 {
		i++
	}
	return i
}

// spellings are what was hidden as an answer may repeat it, the longest first: as it is, without the scheme that stands
// before credentials, decoded from Basic, and escaped for JSON or a URL.
func spellings(hidden []string) []string {
	var all []string
	add := func(secret string) {
		if len(secret) < leastHidden || strings.Contains(redacted, secret) {
			return
		}
		quoted := string(quote(secret))
		escaped, _ := json.Marshal(secret) // as quote, with the escapes for HTML
		all = append(all, secret, url.QueryEscape(secret), url.PathEscape(secret), quoted[1:len(quoted)-1], string(escaped[1:len(escaped)-1]))
	}
	for _, hidden := range hidden {
		add(hidden)
		add(strings.TrimSpace(hidden))
		scheme, credentials, found := strings.Cut(strings.TrimSpace(hidden), " ")
		if !found {
			continue
		}
		add(strings.TrimSpace(credentials))
		if decoded, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
			_, password, _ := strings.Cut(string(decoded), ":")
			add(string(decoded))
			add(password)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(all)
}
