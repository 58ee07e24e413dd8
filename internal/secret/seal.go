package secret

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
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
	var out []byte
	for i := 0; i < len(value); {
		end := i + 1
		switch c := value[i]; {
		case c == '"':
			end = stringEnd(value, i)
			isKey := end < len(value) && value[end] == ':'
			out = append(out, s.hideString(value[i:end], forms, isKey)...)
			i = end
			continue
		case c == '-' || c >= '0' && c <= '9':
			for end < len(value) && strings.IndexByte("+-.eE0123456789", value[end]) >= 0 {
				end++
			}
			if slices.Contains(forms, string(value[i:end])) {
				out = append(out, mark(s.digest(append([]byte("#"), value[i:end]...)))...)
				i = end
				continue
			}
		}
		out = append(out, value[i:end]...)
		i = end
	}
	return out
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
			shown = escaped(hidden, false)
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

// Secrets that are short, or that are words, are found in data by chance.
const (
	leastFound = 8
	leastWord  = 16
)

// quotedMark is the text before a digest within a string, in which nothing is looked for.
const quotedMark = `{\"secret\":\"`

// formsOf are the spellings of secrets that are looked for, the longest first.
func formsOf(secrets []string) []string {
	var forms []string
	for _, text := range secrets {
		for _, part := range parts(text) {
			word := !strings.ContainsFunc(part, func(r rune) bool { return !unicode.IsLetter(r) })
			if len(part) < leastFound || word && len(part) < leastWord {
				continue
			}
			for _, form := range spellings(part) {
				if len(form) >= leastFound && !strings.Contains(quotedMark, form) {
					forms = append(forms, form)
				}
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(forms)
}

// parts are a secret, what follows its scheme (Bearer, Basic), and the user and password that Basic encodes.
func parts(text string) []string {
	all := []string{text}
	scheme, credentials, found := strings.Cut(strings.TrimSpace(text), " ")
	if !found {
		return all
	}
	credentials = strings.TrimSpace(credentials)
	all = append(all, credentials)
	if decoded, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
		_, password, _ := strings.Cut(string(decoded), ":")
		all = append(all, string(decoded), password)
	}
	return all
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
	var out []byte
	for i := 0; i < len(value); {
		end := i + 1
		if value[i] == '"' {
			end = stringEnd(value, i)
		}
		token := value[i:end]
		i = end
		if token[0] == '"' && (end == len(value) || value[end] != ':') {
			if DigestOf(token) != "" {
				token = s.Mark(token)
			}
			text := gjson.ParseBytes(token).Str
			shown := text
			for _, one := range secrets { // the longest first
				if !strings.Contains(shown, one) {
					continue
				}
				marked := string(s.Mark(spell(quote(one))))
				if text == one {
					token, shown = []byte(marked), text
					break
				}
				shown = strings.ReplaceAll(shown, one, marked)
			}
			if shown != text {
				token = quote(shown)
			}
		}
		out = append(out, token...)
	}
	return out
}

func quote(text string) []byte {
	quoted, _ := json.Marshal(text) // of a string: never fails
	return quoted
}
