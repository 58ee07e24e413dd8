package config

import (
	"bytes"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/secret"
)

// mayHoldSecret reports whether an invalid value at a pointer may be a secret.
func mayHoldSecret(at string) bool {
	for _, prefix := range []string{"/mcpServers", "/openapi", "/http/endpoints", "/commands", "/results/store", "/journal",
		"/access/tokens"} {
		if strings.HasPrefix(at, prefix) {
			return true
		}
	}
	return false
}

// secretSet collects secrets; the zero value is empty.
type secretSet map[string]bool

// add adds a value and its components that are secret on their own.
func (s *secretSet) add(value string) {
	if *s == nil {
		*s = secretSet{}
	}
	for _, component := range secret.Components(value) {
		if len(component) >= secret.MinLength {
			(*s)[component] = true
		}
	}
}

// secretsOfURL returns the password and the secret parameters of a URL; other texts have none.
func secretsOfURL(text string) (list []string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil
	}
	if password, ok := u.User.Password(); ok {
		list = append(list, password)
	}
	for name, values := range u.Query() {
		if secret.Name(name) {
			list = append(list, values...)
		}
	}
	return list
}

func (s *secretSet) list() []string { return slices.Sorted(maps.Keys(*s)) }

var (
	// assignment matches an assignment in a text such as a connection string: Server=h;Password=x.
	assignment = regexp.MustCompile(`(?:^|[;&?,\s])-{0,2}([A-Za-z][A-Za-z0-9_. -]*?)\s*=\s*("[^"]*"|'[^']*'|[^;&\s]+)`)
	// userPassword matches what precedes the host of a URL: a password after the user, or a long user name alone.
	userPassword = regexp.MustCompile(`://(?:[^/\s:@"'?#]*:([^/\s"'?#]+)|([^/\s:@"'?#]{20,}))@`)
	anyURL       = regexp.MustCompile(`https?://[^\s"'<>]+`)
)

// secretsIn returns the parts of a value that are secret: members of JSON and parts of a connection string with names of secrets, and the
// password of a URL.
func secretsIn(text string) []string {
	var list []string
	if value := gjson.Parse(text); (value.IsObject() || value.IsArray()) && gjson.Valid(text) {
		return secretMembers(value, false, list)
	}
	for _, match := range assignment.FindAllStringSubmatch(text, -1) {
		if secret.Name(match[1]) {
			list = append(list, strings.Trim(match[2], `"'`))
		}
	}
	for _, match := range userPassword.FindAllStringSubmatch(text, -1) {
		list = append(list, match[1]+match[2])
	}
	return list
}

func secretMembers(value gjson.Result, hidden bool, list []string) []string {
	switch {
	case value.IsObject() || value.IsArray():
		value.ForEach(func(key, member gjson.Result) bool {
			list = secretMembers(member, hidden || secret.Name(key.Str), list)
			return true
		})
	case hidden && (value.Type == gjson.String || value.Type == gjson.Number):
		list = append(list, value.String())
	case value.Type == gjson.String:
		list = append(list, secretsIn(value.Str)...)
	}
	return list
}

// keysIn returns the parts of the URLs in a text that look like keys: path segments and parameters.
func keysIn(text string) []string {
	var list []string
	for _, address := range anyURL.FindAllString(text, -1) {
		_, rest, _ := strings.Cut(address, "://")
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			continue
		}
		for segment := range strings.FieldsFuncSeq(rest[end:], func(c rune) bool { return strings.ContainsRune("/?#&=;,", c) }) {
			if secret.LooksLikeKey(segment) {
				list = append(list, segment)
			}
		}
	}
	return list
}

// assignments match values given to a name in YAML or JSON, in command lines, and in URLs. The first group is the name, the second the
// value. In a URL, the name is that of a user, and the value is always a password.
var assignments = []*regexp.Regexp{
	regexp.MustCompile(`([A-Za-z0-9_.-]+)(?:["']?[ \t]*:[ \t]+|["'][ \t]*:)("(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|(?:\$\{[^}\n]*\}|[^\s{\[&*|>,}\]])(?:\$\{[^}\n]*\}|[^,}\]\n])*)`),
	regexp.MustCompile(`([A-Za-z0-9_.-]+)=((?:\$\{[^}\n]*\}|[^\s,}\]&"'])+)`),
	regexp.MustCompile(`://([^/\s:@"']*):((?:\$\{[^}\n]*\}|[^@/\s"'])+)@`),
}

// maskSecrets replaces the characters of secrets in the text of a configuration by *, which preserves lines and columns. It masks the
// given texts and every value whose name looks like a secret's, even in a text that is not YAML. References in ${…} remain.
func maskSecrets(text []byte, secrets []string) []byte {
	text = bytes.Clone(text)
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) < 3 {
				continue
			}
			once := escapedText(line)
			for _, spelt := range []string{line, once, escapedText(once)} { // escaped twice: in JSON that is itself inside a string
				text = bytes.ReplaceAll(text, []byte(spelt), maskText([]byte(spelt)))
			}
		}
	}
	for i, assignment := range assignments {
		var out []byte
		last := 0
		for _, m := range assignment.FindAllSubmatchIndex(text, -1) {
			name := string(text[m[2]:m[3]])
			hidden, known := hiddenKeys[name]
			if i < 2 && (!known && !secret.Name(name) || known && !hidden) {
				continue
			}
			out = append(append(out, text[last:m[4]]...), maskValue(text[m[4]:m[5]])...)
			last = m[5]
		}
		text = append(out, text[last:]...)
	}
	return text
}

// escapedText escapes a text as between the quotes of JSON and YAML.
func escapedText(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
}

var inBraces = regexp.MustCompile(`\$\{[^}\n]*\}`)

// maskValue masks a value except for its quotes and references in ${…}, whose defaults are masked.
func maskValue(value []byte) []byte {
	quote := value[0]
	if quote != '"' && quote != '\'' {
		return maskText(value)
	}
	if last := len(value) - 1; last > 0 && value[last] == quote {
		return append(append([]byte{quote}, maskText(value[1:last])...), quote)
	}
	return append([]byte{quote}, maskText(value[1:])...)
}

func maskText(text []byte) []byte {
	var out []byte
	cover := func(piece []byte) { out = append(out, bytes.Repeat([]byte{'*'}, utf8.RuneCount(piece))...) }
	last := 0
	for _, m := range inBraces.FindAllIndex(text, -1) {
		cover(text[last:m[0]])
		name, fallback, ok := bytes.Cut(text[m[0]:m[1]], []byte(":-"))
		out = append(out, name...)
		if ok {
			out = append(out, ":-"...)
			cover(fallback[:len(fallback)-1])
			out = append(out, '}')
		}
		last = m[1]
	}
	cover(text[last:])
	return out
}
