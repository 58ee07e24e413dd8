// Package secret decides what is a secret and takes secrets out of what is shown: one rule for the names of secrets, one
// scrubber of texts and JSON, and the digests that stand for secrets in recordings.
package secret

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	// secretWords make a name secret if one of its words is one of them, secretParts if they occur anywhere in it.
	secretWords = []string{"auth", "creds", "dsn", "hmac", "jwt", "key", "keys", "otp", "pass", "pat", "pin", "pw", "pwd", "sid", "sig"}
	secretParts = regexp.MustCompile(`accesskey|apikey|assertion|authorization|bearer|cookie|credential|csrf|oauth|passcode|passphrase|passw|` +
		`privatekey|secret|sessid|session|signature|token|xsrf`)
	// plainParts look like secrets and are none: cursors, tokens by which a call is recognized when it is sent again, and
	// numbers of tokens.
	plainParts = regexp.MustCompile(`(page|paging|pagination|next|previous|prev|continuation|continue|cursor|sync|delta|start|starting|idempotency|` +
		`client|clientrequest)(token|key)s?|(max|min|total|prompt|completion|input|output|count|num)(of)?tokens|publickey`)
	// plainEndings are last words of names that describe a secret without holding it.
	plainEndings = []string{"dir", "enabled", "file", "host", "mode", "name", "names", "path", "port", "sock", "timeout", "ttl", "type", "uri", "url"}
)

// Name reports whether the value of an argument, header, parameter, variable or member of that name is a secret. It
// errs on the side of secrecy, except for cursors, page tokens and the tokens of idempotent requests, which are none.
func Name(name string) bool {
	words := split(name)
	if len(words) > 1 && slices.Contains(plainEndings, words[len(words)-1]) {
		return false
	}
	folded := strings.Join(words, "")
	if plain := plainParts.FindString(folded); plain != "" {
		folded = strings.ReplaceAll(folded, plain, "")
		words = slices.DeleteFunc(words, func(word string) bool { return strings.HasSuffix(plain, word) })
	}
	return secretParts.MatchString(folded) || slices.ContainsFunc(words, func(word string) bool { return slices.Contains(secretWords, word) })
}

// split gives the words of a name in lower case: it ends one at separators, and where a capital follows a small letter
// or a digit.
func split(name string) []string {
	var spaced strings.Builder
	previous := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && (unicode.IsLower(previous) || unicode.IsDigit(previous)) {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(unicode.ToLower(r))
		previous = r
	}
	return strings.FieldsFunc(spaced.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
