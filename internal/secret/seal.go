package secret

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Seal makes digests that stand for secrets. Equal secrets have equal digests under the same salt, and a digest reveals its secret only
// to guessing. It is safe for concurrent use.
type Seal struct{ salt []byte }

// NewSeal returns a seal with a salt, which must be random and may be public.
func NewSeal(salt string) *Seal { return &Seal{[]byte(salt)} }

// Mark returns the JSON object that replaces a secret: {"secret":"<digest>"}. The mark of a mark is itself. Callers must spell equal
// values equally.
func (s *Seal) Mark(value []byte) []byte {
	if digest := DigestOf(value); digest != "" {
		return mark(digest)
	}
	return mark(s.digest(value))
}

func mark(digest string) []byte { return []byte(`{"secret":"` + digest + `"}`) }

const digestBytes = 18 // 24 characters of base64

func (s *Seal) digest(text []byte) string {
	h := hmac.New(sha256.New, s.salt)
	h.Write(text)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:digestBytes])
}

// DigestOf returns the digest of a mark, or of a JSON string that contains one; "" for any other value.
func DigestOf(value []byte) string {
	v := gjson.ParseBytes(value)
	if v.Type == gjson.String && strings.HasPrefix(v.Str, `{"secret":"`) && gjson.Valid(v.Str) {
		v = gjson.Parse(v.Str)
	}
	if !v.IsObject() {
		return ""
	}
	digest := v.Get("secret").Str
	if raw, err := base64.RawURLEncoding.DecodeString(digest); err != nil || len(raw) != digestBytes || len(v.Map()) != 1 {
		return ""
	}
	return digest
}

// Hide returns a JSON value in which marks replace the secrets. Secrets that UnusualComponents leaves out are ignored. Restore with the
// same secrets returns the original bytes, except for unnecessary escapes in a string with a secret. Invalid JSON is returned unchanged.
func (s *Seal) Hide(value []byte, secrets []string) []byte {
	forms := formsOf(secrets)
	if len(forms) == 0 || len(value) == 0 || !gjson.ValidBytes(value) {
		return value
	}
	return rewrite(value, func(token []byte, isKey bool) []byte {
		switch c := token[0]; {
		case c == '"':
			return s.hideString(token, forms, isKey)
		case (c == '-' || c >= '0' && c <= '9') && slices.Contains(forms, string(token)):
			// Not the digest of the same text as a string: Restore must tell the two apart.
			return mark(s.digest(append([]byte("#"), token...)))
		}
		return token
	})
}

// rewrite copies a JSON value, replacing each string, key, number and literal by the result of change.
func rewrite(value []byte, change func(token []byte, isKey bool) []byte) []byte {
	var out []byte
	last := 0
	for start, end := range rawjson.Scalars(value) {
		out = append(out, value[last:start]...)
		out = append(out, change(value[start:end], end < len(value) && value[end] == ':')...)
		last = end
	}
	return append(out, value[last:]...)
}

// hideString hides the forms in a JSON string. Forms with unnecessary escapes are found, too; the string then loses such escapes.
func (s *Seal) hideString(raw []byte, forms []string, isKey bool) []byte {
	inside := string(raw[1 : len(raw)-1])
	if !isKey && slices.Contains(forms, inside) {
		return mark(s.digest([]byte(inside)))
	}
	shown := s.hideText(inside, forms, true)
	if plain := gjson.Parse(`"` + shown + `"`).Str; strings.Contains(shown, `\`) {
		if hidden := s.hideText(plain, forms, false); hidden != plain {
			shown = escaped(hidden)
		}
	}
	return []byte(`"` + shown + `"`)
}

// HideText is Hide for a text that is not JSON.
func (s *Seal) HideText(text string, secrets []string) string {
	return s.hideText(text, formsOf(secrets), false)
}

func (s *Seal) hideText(text string, forms []string, quoted bool) string {
	for _, form := range forms {
		if strings.Contains(text, form) {
			text = strings.ReplaceAll(text, form, s.inText(form, quoted))
		}
	}
	return text
}

// inText returns the mark of a form within a text. If quoted is set, the text is inside a JSON string, so the mark's quotes are escaped.
func (s *Seal) inText(form string, quoted bool) string {
	text := string(mark(s.digest([]byte(form))))
	if quoted {
		return strings.ReplaceAll(text, `"`, `\"`)
	}
	return text
}

// Restore returns the original of a JSON value made by Hide.
func (s *Seal) Restore(value []byte, secrets []string) []byte {
	if !bytes.Contains(value, []byte("secret")) {
		return value
	}
	var pairs []string
	for _, form := range formsOf(secrets) {
		pairs = append(pairs, string(mark(s.digest([]byte("#"+form)))), form, string(mark(s.digest([]byte(form)))), `"`+form+`"`,
			s.inText(form, true), form)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(value)))
}

// RestoreText returns the original of a text made by HideText.
func (s *Seal) RestoreText(text string, secrets []string) string {
	if !strings.Contains(text, `{"secret":"`) {
		return text
	}
	var pairs []string
	for _, form := range formsOf(secrets) {
		pairs = append(pairs, s.inText(form, false), form)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// quotedMark is the text before a digest within a string. Forms contained in it are ignored.
const quotedMark = `{\"secret\":\"`

// formsOf returns the encodings of secrets to look for, longest first.
func formsOf(secrets []string) []string {
	var forms []string
	for _, component := range UnusualComponents(secrets...) {
		for _, form := range encodings(component, minUnusual) {
			if !strings.Contains(quotedMark, form) {
				forms = append(forms, form)
			}
		}
	}
	return longestFirst(forms)
}

// Texts returns the strings, numbers and booleans in a JSON value as texts, at any depth; null is "". Keys are left out.
func Texts(value []byte) []string {
	v := gjson.ParseBytes(value)
	if v.Type != gjson.JSON {
		return []string{v.String()}
	}
	var all []string
	v.ForEach(func(_, element gjson.Result) bool {
		all = append(all, Texts([]byte(element.Raw))...)
		return true
	})
	return all
}

// HideConfigured returns a JSON value in which marks replace the secrets, which must be sorted by length, longest first. A string that is
// a secret becomes its mark; a secret within a longer string becomes the text of its mark; keys are unchanged. A string that is the text of
// a mark becomes the mark. spell returns the spelling of a value that Mark needs.
func (s *Seal) HideConfigured(value []byte, secrets []string, spell func(value []byte) []byte) []byte {
	if len(secrets) == 0 && !bytes.Contains(value, []byte("secret")) || len(value) == 0 || !gjson.ValidBytes(value) {
		return value
	}
	return rewrite(value, func(token []byte, isKey bool) []byte {
		if token[0] != '"' || isKey {
			return token
		}
		if DigestOf(token) != "" {
			token = s.Mark(token)
		}
		text := gjson.ParseBytes(token).Str
		shown := text
		for _, one := range secrets {
			if !strings.Contains(shown, one) {
				continue
			}
			marked := string(s.Mark(spell(quote(one))))
			if text == one {
				return []byte(marked)
			}
			shown = strings.ReplaceAll(shown, one, marked)
		}
		if shown != text {
			return quote(shown)
		}
		return token
	})
}

func quote(text string) []byte {
	quoted, _ := json.Marshal(text) // never fails for a string
	return quoted
}
