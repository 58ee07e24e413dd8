// Package secret decides what is secret and removes secrets from output: one rule for names of secrets, one scrubber of texts and JSON,
// and the digests that stand for secrets in recordings.
package secret

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	// A name is secret if one of its words is in secretWords, or if it contains one of secretSubstrings.
	secretWords      = []string{"auth", "creds", "dsn", "hmac", "jwt", "key", "keys", "otp", "pass", "pat", "pin", "pw", "pwd", "sid", "sig"}
	secretSubstrings = []string{"accesskey", "apikey", "assertion", "authorization", "bearer", "cookie", "credential", "csrf",
		"oauth", "passcode", "passphrase", "passw", "privatekey", "secret", "sessid", "session", "signature", "token", "xsrf"}
	// keyWords qualify a key in arguments as secret. Other keys name things: issueKey, sortKey.
	keyWords = []string{"account", "admin", "app", "application", "client", "consumer", "decryption", "deploy", "deployment",
		"encryption", "gpg", "host", "hmac", "integration", "licence", "license", "master", "pem", "pgp", "root", "rsa", "server",
		"service", "shared", "signing", "ssh", "ssl", "subscription", "tls", "vapid", "webhook", "write"}
	// plainPatterns match names that look secret but are not: idempotency keys, numbers of tokens, and public keys. cursors also matches
	// names that are plain only in arguments, such as those of page tokens.
	plainPatterns = regexp.MustCompile(`idempotency(token|key)s?|(max|min|total|prompt|completion|input|output|count|num)(of)?tokens|publickey`)
	cursors       = regexp.MustCompile(plainPatterns.String() + `|client(request)?tokens?|` +
		`(page|paging|pagination|next|previous|prev|continuation|continue|cursor|sync|delta|start|starting)(token|key)s?`)
	// plainEndings are last words of names that describe a secret without containing it.
	plainEndings = []string{"dir", "enabled", "file", "host", "mode", "name", "names", "path", "port", "sock", "timeout", "ttl",
		"type", "uri", "url"}
)

// Name reports, by its name, whether the value of a header, an environment variable or a key of a configuration is secret. In doubt, it
// reports true.
func Name(name string) bool { return isSecret(name, plainPatterns, nil) || isJoined(name) }

// Argument reports, by its name, whether the value of an argument, or of a member of an argument, is secret. Cursors, page tokens and
// idempotency tokens are not, nor are keys that are not qualified as secret.
func Argument(name string) bool { return isSecret(name, cursors, keyWords) }

// joinedPatterns match secret names in a configuration whose words have no separator: SSHPASS, X-Authkey.
var joinedPatterns = regexp.MustCompile(`authkey|authenticat|passkey|pwd`)

// isJoined reports whether a name in a configuration is secret by part of its words, or by words that mean something else in arguments.
func isJoined(name string) bool {
	words := split(name)
	if len(words) > 1 && slices.Contains(plainEndings, words[len(words)-1]) {
		return false
	}
	return joinedPatterns.MatchString(strings.Join(words, "")) || slices.ContainsFunc(words, func(word string) bool {
		return word == "cred" || word == "private" || strings.HasSuffix(word, "pass") && word != "compass" && word != "bypass"
	})
}

// isSecret reports whether a name is secret, apart from what plainNames matches in it. keyWords qualify keys; nil: all keys are secret.
func isSecret(name string, plainNames *regexp.Regexp, keyWords []string) bool {
	folded := strings.Map(foldRune, name)
	if !slices.ContainsFunc(secretWords, containedIn(folded)) && !slices.ContainsFunc(secretSubstrings, containedIn(folded)) {
		return false // most names end here, before the expensive part
	}
	words := split(name)
	if len(words) > 1 && slices.Contains(plainEndings, words[len(words)-1]) {
		return false
	}
	if plain := plainNames.FindString(folded); plain != "" {
		folded = strings.ReplaceAll(folded, plain, "")
		words = slices.DeleteFunc(words, func(word string) bool { return strings.HasSuffix(plain, word) }) // such as token of pageToken
	}
	isKeyWord := func(word string) bool { return slices.Contains(keyWords, word) }
	if keyWords != nil && !slices.ContainsFunc(words, isKeyWord) {
		words = slices.DeleteFunc(words, func(word string) bool { return word == "key" || word == "keys" })
	}
	isSecretWord := func(word string) bool { return slices.Contains(secretWords, word) }
	return slices.ContainsFunc(secretSubstrings, containedIn(folded)) || slices.ContainsFunc(words, isSecretWord)
}

func containedIn(text string) func(substring string) bool {
	return func(substring string) bool { return strings.Contains(text, substring) }
}

// foldRune lower-cases letters, keeps digits, and drops the rest.
func foldRune(r rune) rune {
	if isSeparator(r) {
		return -1
	}
	return unicode.ToLower(r)
}

func isSeparator(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// split returns the words of a name in lower case. A word ends at a separator, before a capital after a lower-case letter or a
// digit, and before the last of several capitals if a lower-case letter follows.
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
