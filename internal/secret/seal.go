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

// Seal makes digests that stand for secrets: equal secrets have equal digests under the same salt, and nobody finds the
// secret in its digest without guessing it. It may be used by many goroutines.
type Seal struct{ salt []byte }

// NewSeal makes a seal of a salt, which must be random and may be public.
func NewSeal(salt string) *Seal { return &Seal{[]byte(salt)} }

// Mark is the JSON object that stands in the place of a secret: {"secret":"<digest>"}. A value that is a mark already is
// its own. Equal values must come in equal spelling.
func (s *Seal) Mark(value []byte) []byte {
	if digest := DigestOf(value); digest != "" {
		return mark(digest)
	}
	return mark(s.digest(value))
}

func mark(digest string) []byte { return []byte(`{"secret":"` + digest + `"}`) }

const digestBytes = 18

func (s *Seal) digest(text []byte) string {
	h := hmac.New(sha256.New, s.salt)
	h.Write(text)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:digestBytes])
}

// DigestOf is the digest of a mark, or of a JSON string that holds one; "" for any other value.
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

// Hide returns a JSON value in which marks stand for what repeats one of the secrets, of which short ones and plain words
// are not looked for. Restore of the same secrets gives its bytes again.
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
			return mark(s.digest(append([]byte("#"), token...)))
		}
		return token
	})
}

// rewrite copies a JSON value with what change makes of each string, key, number and literal.
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

// hideString hides the forms in a JSON string. What stands in it with needless escapes is found too, and loses them.
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

// HideText does what Hide does in a text that is not JSON.
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

// inText is the mark of a form within a text, quoted if that is the inside of a JSON string.
func (s *Seal) inText(form string, quoted bool) string {
	text := string(mark(s.digest([]byte(form))))
	if quoted {
		return strings.ReplaceAll(text, `"`, `\"`)
	}
	return text
}

// Restore returns a JSON value that Hide made, with the secrets.
func (s *Seal) Restore(value []byte, secrets []string) []byte {
	if !bytes.Contains(value, []byte("secret")) {
		return value
	}
	var pairs []string
	for _, form := range formsOf(secrets) {
		pairs = append(pairs, string(mark(s.digest([]byte("#"+form)))), form, string(mark(s.digest([]byte(form)))), `"`+form+`"`, s.inText(form, true), form)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(value)))
}

// RestoreText returns a text that HideText made, with the secrets.
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

// quotedMark is the text before a digest within a string, in which nothing is looked for.
const quotedMark = `{\"secret\":\"`

// formsOf returns the spellings of secrets that are looked for, the longest first.
func formsOf(secrets []string) []string {
	var forms []string
	for _, part := range Unusual(secrets...) {
		for _, form := range spellings(part, minUnusual) {
			if !strings.Contains(quotedMark, form) {
				forms = append(forms, form)
			}
		}
	}
	return longestFirst(forms)
}

// Texts are the strings and numbers in a JSON value, as texts.
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

// Configured returns a JSON value in which marks stand for the secrets, the longest of which comes first: a string that is
// one becomes its mark, a part of a string the text of that; keys stay as they are. A string that is a mark's text becomes
// the mark. spell gives the spelling in which Mark takes a value.
func (s *Seal) Configured(value []byte, secrets []string, spell func(value []byte) []byte) []byte {
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
	quoted, _ := json.Marshal(text) // of a string: never fails
	return quoted
}
