package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// minSecret is the least length, in bytes, of a secret that is looked for: shorter ones are found in data by chance.
const minSecret = 6

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// Scrubber takes secrets out of what leaves onecall. nil takes out nothing. It may be used by many goroutines.
type Scrubber struct {
	needles []string // longest first: a secret may hold another
	numbers map[string]bool
}

// New makes a scrubber of these texts, as they are and in the spellings that JSON, URLs and base64 have for them; in base64
// also as a part of what is encoded. Texts of less than 6 bytes are not looked for.
func New(secrets []string) *Scrubber {
	if len(secrets) == 0 {
		return nil
	}
	s := &Scrubber{numbers: map[string]bool{}}
	found := map[string]bool{}
	for _, secret := range secrets {
		if len(secret) < minSecret {
			continue
		}
		s.numbers[secret] = true
		for _, form := range spellings(secret) {
			if !found[form] && len(form) >= minSecret {
				found[form] = true
				s.needles = append(s.needles, form)
			}
		}
	}
	if len(s.needles) == 0 {
		return nil
	}
	slices.SortFunc(s.needles, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return s
}

// spellings are the forms in which a text stands in others. A text of JSON is decoded before it is looked through; these
// are for JSON in a string of JSON, and for texts that are not JSON.
func spellings(secret string) []string {
	plain := escaped(secret, false)
	forms := []string{
		secret, plain, strings.ReplaceAll(plain, "/", `\/`), escaped(secret, true), strings.ReplaceAll(escaped(secret, true), "/", `\/`),
		url.QueryEscape(secret), url.PathEscape(secret), strings.ToLower(url.QueryEscape(secret)),
	}
	html, _ := json.Marshal(secret) // of a string: never fails
	forms = append(forms, string(html[1:len(html)-1]))
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(secret)))
		// What is encoded may begin one or two bytes before the secret, and go on after it: only the characters that are made
		// of the secret's bits alone are known.
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), secret...))
			forms = append(forms, text[(before*8+5)/6:(before+len(secret))*8/6])
		}
	}
	return forms
}

// escaped is the inside of a JSON string, with ASCII alone where that is asked for.
func escaped(text string, ascii bool) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // of a string: never fails
	inside := b.String()[1 : b.Len()-2]
	if !ascii {
		return inside
	}
	var out strings.Builder
	for _, c := range inside {
		switch {
		case c < 0x80:
			out.WriteRune(c)
		case c < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, c)
		default:
			c -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		}
	}
	return out.String()
}

// Text gives a text that is not JSON without the secrets; it is text itself where there are none.
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

// JSON gives a JSON value without the secrets: it stays JSON. They are looked for in strings and keys, however these are
// escaped; a number that is one becomes a string. It is value itself where there are none; what is not JSON is taken for
// a text.
func (s *Scrubber) JSON(value []byte) []byte {
	if s == nil || len(value) == 0 || !s.suspects(value) {
		return value
	}
	if !gjson.ValidBytes(value) {
		return []byte(s.Text(string(value)))
	}
	out, kept := []byte(nil), 0 // value[:kept] is in out
	replace := func(start, end int, with string) {
		quoted, _ := json.Marshal(with) // of a string: never fails
		out = append(append(out, value[kept:start]...), quoted...)
		kept = end
	}
	for i := 0; i < len(value); {
		switch c := value[i]; {
		case c == '"':
			end := stringEnd(value, i)
			if text := gjson.ParseBytes(value[i:end]).Str; s.Text(text) != text {
				replace(i, end, s.Text(text))
			}
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(value) && strings.IndexByte("+-.eE0123456789", value[end]) >= 0 {
				end++
			}
			if s.numbers[string(value[i:end])] {
				replace(i, end, Redacted)
			}
			i = end
		default:
			i++
		}
	}
	if kept == 0 {
		return value
	}
	return append(out, value[kept:]...)
}

// suspects reports whether a value may hold a secret: it does as it stands, or has escapes.
func (s *Scrubber) suspects(value []byte) bool {
	if bytes.IndexByte(value, '\\') >= 0 {
		return true
	}
	return slices.ContainsFunc(s.needles, func(needle string) bool { return bytes.Contains(value, []byte(needle)) })
}

// stringEnd returns the index after the JSON string that begins at start.
func stringEnd(value []byte, start int) int {
	for i := start + 1; i < len(value); i++ {
		switch value[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(value)
}
