package httpcall

import (
	"slices"
	"strings"
	"unicode"
)

// secretWords make a name secret where one of its words is one of them; secretParts anywhere in it.
var (
	secretWords = []string{"auth", "cookie", "credential", "credentials", "creds", "jwt", "key", "keys", "hmac", "oauth", "otp", "pass", "pat", "pin", "pw", "pwd",
		"session", "sid", "sig"}
	secretParts = []string{"accesskey", "apikey", "assertion", "authorization", "bearer", "csrf", "passcode", "passphrase", "passwd", "password", "privatekey",
		"secret", "sessid", "sessionid", "signature", "token", "xsrf"}
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
