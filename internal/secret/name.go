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
	secretParts = []string{"accesskey", "apikey", "assertion", "authorization", "bearer", "cookie", "credential", "csrf", "oauth", "passcode",
		"passphrase", "passw", "privatekey", "secret", "sessid", "session", "signature", "token", "xsrf"}
	// keyWords make a secret of a key in arguments, where others name things: issueKey, sortKey.
	keyWords = []string{"account", "admin", "app", "application", "client", "consumer", "decryption", "deploy", "deployment", "encryption", "gpg", "host",
		"hmac", "integration", "licence", "license", "master", "pem", "pgp", "root", "rsa", "server", "service", "shared", "signing", "ssh", "ssl",
		"subscription", "tls", "vapid", "webhook", "write"}
	// plainParts look like secrets and are none: keys by which a call is recognized when it is sent again, and numbers of
	// tokens. cursors are such parts of arguments.
	plainParts = regexp.MustCompile(`idempotency(token|key)s?|(max|min|total|prompt|completion|input|output|count|num)(of)?tokens|publickey`)
	cursors    = regexp.MustCompile(plainParts.String() + `|client(request)?tokens?|` +
		`(page|paging|pagination|next|previous|prev|continuation|continue|cursor|sync|delta|start|starting)(token|key)s?`)
	// plainEndings are last words of names that describe a secret without holding it.
	plainEndings = []string{"dir", "enabled", "file", "host", "mode", "name", "names", "path", "port", "sock", "timeout", "ttl", "type", "uri", "url"}
)

// Name reports whether the value of a header, variable or member of that name in a configuration is a secret. It errs on
// the side of secrecy.
func Name(name string) bool { return isSecret(name, plainParts, nil) || isGlued(name) }

// Argument reports whether the value of an argument, or of a member of one, of that name is a secret. Cursors, page tokens
// and the tokens of idempotent requests are none, nor are keys of which the name does not say that they are secret.
func Argument(name string) bool { return isSecret(name, cursors, keyWords) }

// gluedParts make a secret of a name in a configuration, where words stand without a separator: SSHPASS, X-Authkey.
var gluedParts = regexp.MustCompile(`authkey|authenticat|passkey|pwd`)

// isGlued reports whether a name in a configuration is that of a secret by parts of its words, or by words that mean others in
// arguments.
func isGlued(name string) bool {
	words := split(name)
	if len(words) > 1 && slices.Contains(plainEndings, words[len(words)-1]) {
		return false
	}
	return gluedParts.MatchString(strings.Join(words, "")) || slices.ContainsFunc(words, func(word string) bool {
		return word == "cred" || word == "private" || strings.HasSuffix(word, "pass") && word != "compass" && word != "bypass"
	})
}

// isSecret reports whether a name without its plain parts is that of a secret; the words qualify keys, nil: all keys are secret.
func isSecret(name string, plainParts *regexp.Regexp, keyWords []string) bool {
	folded := strings.Map(foldRune, name)
	if !slices.ContainsFunc(secretWords, isPartOf(folded)) && !slices.ContainsFunc(secretParts, isPartOf(folded)) {
		return false // as most names are: before what costs more
	}
	words := split(name)
	if len(words) > 1 && slices.Contains(plainEndings, words[len(words)-1]) {
		return false
	}
	if plain := plainParts.FindString(folded); plain != "" {
		folded = strings.ReplaceAll(folded, plain, "")
		words = slices.DeleteFunc(words, func(word string) bool { return strings.HasSuffix(plain, word) })
	}
	isKeyWord := func(word string) bool { return slices.Contains(keyWords, word) }
	if keyWords != nil && !slices.ContainsFunc(words, isKeyWord) {
		words = slices.DeleteFunc(words, func(word string) bool { return word == "key" || word == "keys" })
	}
	isSecretWord := func(word string) bool { return slices.Contains(secretWords, word) }
	return slices.ContainsFunc(secretParts, isPartOf(folded)) || slices.ContainsFunc(words, isSecretWord)
}

func isPartOf(text string) func(part string) bool {
	return func(part string) bool { return strings.Contains(text, part) }
}

// foldRune keeps letters, in lower case, and digits.
func foldRune(r rune) rune {
	if isSeparator(r) {
		return -1
	}
	return unicode.ToLower(r)
}

func isSeparator(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// split gives the words of a name in lower case: it ends one at separators, where a capital follows a small letter or a
// digit, and before the last of several capitals where a small letter follows.
func split(name string) []string {
	var spaced strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) {
			previous := runes[i-1]
			starts := unicode.IsUpper(previous) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if starts || unicode.IsLower(previous) || unicode.IsDigit(previous) {
				spaced.WriteByte(' ')
			}
		}
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(spaced.String(), isSeparator)
}
