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

// Components returns a secret and its parts that are secret on their own: each line; the secret without surrounding white space; the text
// after the first space, such as the credentials in an Authorization header; and, if the scheme of that header is Basic, the decoded
// user:password and the password alone.
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
	if decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(credentials, "=")); err == nil && strings.EqualFold(scheme, "basic") {
		_, password, _ := strings.Cut(string(decoded), ":")
		all = append(all, string(decoded), password)
	}
	return all
}

// The minimum lengths, in bytes, of the components that UnusualComponents returns. minWord applies to those that have only letters.
const (
	minUnusual = 8
	minWord    = 16
)

// UnusualComponents returns the components of secrets that are unlikely to occur in data by chance: those of at least 8 bytes, or 16 if
// they have only letters. It is for values that are taken as secret because of their name or use, such as arguments and credentials.
func UnusualComponents(secrets ...string) []string {
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
	keyText       = regexp.MustCompile(`^[A-Za-z0-9_.~%+=-]{20,}$`)
	fileExtension = regexp.MustCompile(`\.(json|ya?ml|html?|md|txt|js|ts|py)$`)
)

// LooksLikeKey reports whether a text is long and mixes letters and digits, as keys do and most names do not.
func LooksLikeKey(text string) bool {
	return isKeyOrLongNumber(text) && strings.ContainsFunc(text, unicode.IsLetter)
}

// isKeyOrLongNumber reports whether a text looks like a key or a long number: it is at least 20 bytes long, consists of characters that
// keys have, contains a digit, and is not the name of a file.
func isKeyOrLongNumber(text string) bool {
	return keyText.MatchString(text) && !fileExtension.MatchString(text) && strings.ContainsAny(text, "0123456789")
}

// Variable reports whether the value of an environment variable is taken as secret: because of the variable's name, or because the value
// looks like a key or a long number.
func Variable(name, value string) bool { return Name(name) || isKeyOrLongNumber(value) }

// mayBeNumber reports whether a text has at least MinLength bytes and only characters that occur in JSON numbers.
func mayBeNumber(text string) bool {
	return len(text) >= MinLength && !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789+-.eE", r) })
}

// encodings returns the forms in which a secret may occur in a text: the secret itself, and as encoded by JSON, URLs and base64. Forms
// shorter than minLength bytes are left out; if the secret itself is shorter, there are none. A Scrubber searches the decoded strings of
// JSON, so it needs the JSON forms only for JSON inside strings and for texts that are not JSON.
func encodings(secret string, minLength int) []string {
	if len(secret) < minLength {
		return nil
	}
	plain, ascii := escaped(secret), asciiOnly(escaped(secret))
	html, _ := json.Marshal(secret) // also escapes <, > and &; never fails for a string
	forms := []string{
		secret, plain, strings.ReplaceAll(plain, "/", `\/`), ascii, strings.ReplaceAll(ascii, "/", `\/`), string(html[1 : len(html)-1]),
	}
	query := url.QueryEscape(secret)
	for _, form := range []string{query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(secret)} {
		forms = append(forms, form, percentEscape.ReplaceAllStringFunc(form, strings.ToLower))
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(secret)))
		// The secret may be part of a longer text that was encoded as a whole. Its form then depends on the number of bytes before it,
		// modulo 3. Only the characters made of the secret's bits alone are known.
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), secret...))
			forms = append(forms, text[(before*8+5)/6:(before+len(secret))*8/6])
		}
	}
	long := forms[:0]
	for _, form := range forms {
		if len(form) >= minLength {
			long = append(long, form)
		}
	}
	return longestFirst(long)
}

var percentEscape = regexp.MustCompile(`%[0-9A-F]{2}`)

// escaped returns a text as it stands between the quotes of a JSON string, with only the necessary escapes.
func escaped(text string) string {
	quoted := rawjson.AppendQuote(nil, text)
	return string(quoted[1 : len(quoted)-1])
}

// asciiOnly replaces the non-ASCII characters of a text inside a JSON string by escapes such as \u00e9.
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
