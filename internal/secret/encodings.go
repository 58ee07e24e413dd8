package secret

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Components returns a secret and its parts that are secret on their own: each line; what follows the first blank, such as the credentials
// after the scheme of an Authorization header; and what the scheme Basic encodes: user and password, and the password alone.
func Components(secret string) []string {
	all := []string{secret}
	if strings.Contains(secret, "\n") {
		for line := range strings.Lines(secret) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	trimmed := strings.TrimSpace(secret)
	if trimmed != secret {
		all = append(all, trimmed)
	}
	scheme, credentials, ok := strings.Cut(trimmed, " ")
	if !ok {
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

// Limits in bytes for a secret that is not configured, such as an argument of a call. Shorter texts are ignored; minWord applies to texts
// that have only letters.
const (
	minUnusual = 8
	minWord    = 16
)

// Unusual returns the components of secrets that do not occur in data by chance: texts of at least 8 bytes, or 16 if they have only
// letters. It is for values that are secret by their name, not by the configuration.
func Unusual(secrets ...string) []string {
	var unusual []string
	for _, secret := range secrets {
		for _, component := range Components(secret) {
			isWord := !strings.ContainsFunc(component, func(r rune) bool { return !unicode.IsLetter(r) })
			if len(component) >= minUnusual && (!isWord || len(component) >= minWord) {
				unusual = append(unusual, component)
			}
		}
	}
	return unusual
}

var (
	keyText  = regexp.MustCompile(`^[A-Za-z0-9_.~%+=-]{20,}$`)
	fileName = regexp.MustCompile(`\.(json|ya?ml|html?|md|txt|js|ts|py)$`)
)

// LooksLikeKey reports whether a text is long and mixes letters and digits, like keys and unlike most names.
func LooksLikeKey(text string) bool {
	return isLong(text) && strings.ContainsFunc(text, unicode.IsLetter)
}

// isLong reports whether a text is long, has digits, and is not a file name.
func isLong(text string) bool {
	return keyText.MatchString(text) && !fileName.MatchString(text) && strings.ContainsAny(text, "0123456789")
}

// Variable reports whether the value of an environment variable is secret: by its name, or because it looks like a key or is a long
// number.
func Variable(name, value string) bool { return Name(name) || isLong(value) }

// isNumber reports whether a text that is long enough to be looked for may be a number in JSON.
func isNumber(text string) bool {
	return len(text) >= MinLength && !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789+-.eE", r) })
}

// encodings returns the forms in which a secret may occur in a text, those of at least shortest bytes; none if the secret itself is
// shorter. JSON is decoded before it is searched: the JSON forms are for JSON inside strings and for texts that are not JSON.
func encodings(secret string, shortest int) []string {
	if len(secret) < shortest {
		return nil
	}
	plain, ascii := escaped(secret), asciiOnly(escaped(secret))
	html, _ := json.Marshal(secret) // never fails for a string
	query := url.QueryEscape(secret)
	forms := []string{
		secret, plain, strings.ReplaceAll(plain, "/", `\/`), ascii, strings.ReplaceAll(ascii, "/", `\/`), string(html[1 : len(html)-1]),
		query, strings.ToLower(query), strings.ReplaceAll(query, "+", "%20"), url.PathEscape(secret),
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(secret)))
		// The encoded text may begin one or two bytes before the secret and continue after it. Only the characters made of the secret's
		// bits alone are known.
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), secret...))
			forms = append(forms, text[(before*8+5)/6:(before+len(secret))*8/6])
		}
	}
	long := forms[:0]
	for _, form := range forms {
		if len(form) >= shortest {
			long = append(long, form)
		}
	}
	return longestFirst(long)
}

// escaped returns a text as inside a JSON string, with minimal escapes.
func escaped(text string) string {
	quoted := rawjson.AppendQuote(nil, text)
	return string(quoted[1 : len(quoted)-1])
}

// asciiOnly escapes non-ASCII characters inside a JSON string.
func asciiOnly(text string) string {
	var out strings.Builder
	for _, c := range text {
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
