package httpcall

import (
	"encoding/json"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

const redacted = "[redacted]"

// redact gives the arguments as a recording may show them: header values other than those of a safe list, and values
// whose names look like secrets in the URL's query, in query and in body, are replaced. Names are compared without
// regard to case, as arguments may come here before they are checked.
func redact(args []byte) []byte {
	headers := gjson.Result{}
	gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
		if strings.EqualFold(name.Str, "headers") {
			headers = value
		}
		return true
	})
	return rewrite(gjson.ParseBytes(args), func(name string, value gjson.Result) []byte {
		switch strings.ToLower(name) {
		case "url":
			return quote(redactURL(value.String()))
		case "headers":
			return rewrite(value, func(name string, value gjson.Result) []byte {
				if safeHeaders[textproto.CanonicalMIMEHeaderKey(name)] {
					return []byte(value.Raw)
				}
				return quote(redacted)
			})
		case "query", "body":
			return redactValue(value, isForm(headers), 0)
		}
		return []byte(value.Raw)
	})
}

// rewrite copies an object with each member's value replaced; what is no object is hidden whole.
func rewrite(object gjson.Result, member func(name string, value gjson.Result) []byte) []byte {
	if !object.IsObject() {
		return quote(redacted)
	}
	out := []byte{'{'}
	object.ForEach(func(name, value gjson.Result) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, name.Raw...), ':')
		out = append(out, member(name.Str, value)...)
		return true
	})
	return append(out, '}')
}

// maxRedactDepth is the depth below which a value is hidden whole.
const maxRedactDepth = 100

// redactValue hides the members with secret names at any depth, also in a string that is JSON or a form.
func redactValue(value gjson.Result, form bool, depth int) []byte {
	switch {
	case depth > maxRedactDepth:
		return quote(redacted)
	case value.IsObject():
		return rewrite(value, func(name string, value gjson.Result) []byte {
			if secretName(name) {
				return quote(redacted)
			}
			return redactValue(value, form, depth+1)
		})
	case value.IsArray():
		out := []byte{'['}
		value.ForEach(func(_, element gjson.Result) bool {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, redactValue(element, form, depth+1)...)
			return true
		})
		return append(out, ']')
	case value.Type == gjson.String && form:
		return quote(redactQuery(value.Str))
	case value.Type == gjson.String && strings.ContainsAny(value.Str, "{[") && json.Valid([]byte(value.Str)):
		return quote(string(redactValue(gjson.Parse(value.Str), form, depth+1)))
	}
	return []byte(value.Raw)
}

func isForm(headers gjson.Result) (form bool) {
	headers.ForEach(func(name, value gjson.Result) bool {
		form = form || strings.EqualFold(name.Str, "content-type") && strings.HasPrefix(strings.ToLower(value.Str), formType)
		return true
	})
	return form
}

// redactURL hides the user and the secrets in the query. What is no URL is hidden whole.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return redacted
	}
	if u.User == nil && u.RawQuery == redactQuery(u.RawQuery) {
		return text
	}
	if u.User != nil {
		u.User = url.User("redacted")
	}
	u.RawQuery = redactQuery(u.RawQuery)
	return u.String()
}

// redactQuery hides the values of secret names in a query or form, and leaves every other byte as it is.
func redactQuery(query string) string {
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, found := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		if found && (err != nil || secretName(plain)) {
			parts[i] = name + "=" + url.QueryEscape(redacted)
		}
	}
	return strings.Join(parts, "&")
}

// secretWords make a name secret where one of its words is one of them; secretParts anywhere in it.
var (
	secretWords = []string{"auth", "cookie", "credential", "credentials", "jwt", "key", "keys", "hmac", "oauth", "otp", "pass", "pin", "pwd", "session", "sid", "sig"}
	secretParts = []string{"apikey", "authorization", "bearer", "passphrase", "passwd", "password", "secret", "signature", "token"}
)

// secretName tells whether a name looks like that of a secret; it errs on the side of hiding.
func secretName(name string) bool {
	folded := strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	for _, part := range secretParts {
		if strings.Contains(folded, part) {
			return true
		}
	}
	return slices.ContainsFunc(words(name), func(word string) bool { return slices.Contains(secretWords, word) })
}

// words splits a name at separators and where a capital letter follows a small one.
func words(name string) []string {
	var spaced strings.Builder
	previous := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(previous) {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(unicode.ToLower(r))
		previous = r
	}
	return strings.FieldsFunc(spaced.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func quote(text string) []byte {
	quoted, err := marshal(text)
	if err != nil {
		return []byte(`"` + redacted + `"`)
	}
	return quoted
}
