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

// mayHoldSecret tells of a place in a configuration whether what is wrongly written there may be a secret.
func mayHoldSecret(at string) bool {
	for _, part := range []string{"/mcpServers", "/openapi", "/http/endpoints", "/results/store", "/journal", "/access/tokens"} {
		if strings.HasPrefix(at, part) {
			return true
		}
	}
	return false
}

// secretSet collects secrets; the zero value is empty.
type secretSet map[string]bool

// add adds a value, and the parts of it that are secret by themselves.
func (s *secretSet) add(value string) {
	if *s == nil {
		*s = secretSet{}
	}
	for _, part := range secret.Parts(value) {
		if len(part) >= secret.MinLength {
			(*s)[part] = true
		}
	}
}

// addURL adds the password and the secret parameters of a URL; other texts have none.
func (s *secretSet) addURL(text string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return
	}
	if password, ok := u.User.Password(); ok {
		s.add(password)
	}
	for name, values := range u.Query() {
		for _, value := range values {
			if secret.Name(name) {
				s.add(value)
			}
		}
	}
}

func (s *secretSet) list() []string { return slices.Sorted(maps.Keys(*s)) }

var (
	// assignedPart is one of the assignments in a text such as a connection string: Server=h;Password=x.
	assignedPart = regexp.MustCompile(`(?:^|[;&?,\s])-{0,2}([A-Za-z][A-Za-z0-9_. -]*?)\s*=\s*("[^"]*"|'[^']*'|[^;&\s]+)`)
	// userPassword is what stands before the host of a URL: a password after the user's name, or a long name alone.
	userPassword = regexp.MustCompile(`://(?:[^/\s:@"'?#]*:([^/\s"'?#]+)|([^/\s:@"'?#]{20,}))@`)
	anyURL       = regexp.MustCompile(`https?://[^\s"'<>]+`)
)

// secretsIn gives the parts of a value that are secret by their names: members of JSON, parts of a connection string, the
// password of a URL.
func secretsIn(text string) []string {
	var list []string
	if value := gjson.Parse(text); (value.IsObject() || value.IsArray()) && gjson.Valid(text) {
		return secretMembers(value, false, list)
	}
	for _, parts := range assignedPart.FindAllStringSubmatch(text, -1) {
		if secret.Name(parts[1]) {
			list = append(list, strings.Trim(parts[2], `"'`))
		}
	}
	for _, parts := range userPassword.FindAllStringSubmatch(text, -1) {
		list = append(list, parts[1]+parts[2])
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

// keysIn gives the parts of the URLs in a text that look like keys: segments of the path, and parameters.
func keysIn(text string) []string {
	var list []string
	for _, found := range anyURL.FindAllString(text, -1) {
		_, rest, _ := strings.Cut(found, "://")
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			continue
		}
		for part := range strings.FieldsFuncSeq(rest[end:], func(c rune) bool { return strings.ContainsRune("/?#&=;,", c) }) {
			if secret.LooksLikeKey(part) {
				list = append(list, part)
			}
		}
	}
	return list
}

// assignments are where a text gives a value to a name: in YAML or JSON, and in a URL or a command line. The name is the
// first group, the value the second.
var assignments = []*regexp.Regexp{
	regexp.MustCompile(`([A-Za-z0-9_.-]+)(?:["']?[ \t]*:[ \t]+|["'][ \t]*:)("(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|(?:\$\{[^}\n]*\}|[^\s{\[&*|>,}\]])(?:\$\{[^}\n]*\}|[^,}\]\n])*)`),
	regexp.MustCompile(`([A-Za-z0-9_.-]+)=((?:\$\{[^}\n]*\}|[^\s,}\]&"'])+)`),
	regexp.MustCompile(`://([^/\s:@"']*):((?:\$\{[^}\n]*\}|[^@/\s"'])+)@`), // the user's name is the first group
}

// mask puts * for the characters of secrets in the text of a configuration, which keeps its lines and columns: the texts
// that are given, and whatever a name that looks like a secret's is given, even where the text is not YAML. What stands
// in ${…} remains.
func mask(text []byte, secrets []string) []byte {
	text = bytes.Clone(text)
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) < 3 {
				continue
			}
			once := escapedText(line)
			for _, spelt := range []string{line, once, escapedText(once)} { // the last: in JSON within a text
				text = bytes.ReplaceAll(text, []byte(spelt), covered([]byte(spelt)))
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
			out = append(append(out, text[last:m[4]]...), stars(text[m[4]:m[5]])...)
			last = m[5]
		}
		text = append(out, text[last:]...)
	}
	return text
}

// escapedText is a text as it stands between the quotes of JSON, and of YAML.
func escapedText(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
}

var inBraces = regexp.MustCompile(`\$\{[^}\n]*\}`)

// stars puts * for each character of a value, but for the quotes around it and for ${…}, of which a default is covered.
func stars(value []byte) []byte {
	quote := value[0]
	if quote != '"' && quote != '\'' {
		return covered(value)
	}
	if last := len(value) - 1; last > 0 && value[last] == quote {
		return append(append([]byte{quote}, covered(value[1:last])...), quote)
	}
	return append([]byte{quote}, covered(value[1:])...)
}

func covered(text []byte) []byte {
	var out []byte
	cover := func(part []byte) { out = append(out, bytes.Repeat([]byte{'*'}, utf8.RuneCount(part))...) }
	last := 0
	for _, m := range inBraces.FindAllIndex(text, -1) {
		cover(text[last:m[0]])
		name, fallback, found := bytes.Cut(text[m[0]:m[1]], []byte(":-"))
		out = append(out, name...)
		if found {
			out = append(out, ":-"...)
			cover(fallback[:len(fallback)-1])
			out = append(out, '}')
		}
		last = m[1]
	}
	cover(text[last:])
	return out
}
