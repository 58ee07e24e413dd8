package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// Variable is an environment variable that a configuration uses.
type Variable struct {
	Name   string
	Secret bool // its value, or a part of it, must not leave onecall
}

// judge decides for each variable of a text whether its value is secret, adds those that are, and returns the values that are not secret
// whatever else they look like. anySecret reports whether one is secret. written is the text without expansion, and name that of the
// header, variable, member or flag that it is the value of, or "".
func (e *expander) judge(expanded expansion, written, kind, name string) (plain []string, anySecret bool) {
	inUser := userPartOf(written)
	for _, v := range expanded.values {
		if v.predefined {
			continue
		}
		isPlain := slices.Contains(e.plain, v.name) || kind != "credential" && secret.Plain(v.value)
		isSecret := slices.Contains(e.forced, v.name) || !isPlain &&
			(kind == "credential" || secret.Name(v.name) || secret.Name(name) || strings.Contains(inUser, v.name) ||
				secret.LooksLikeKey(v.value) || kind == "env" && secret.Variable(v.name, v.value))
		switch {
		case isSecret:
			e.addSecret(v.value)
		case isPlain:
			plain = append(plain, v.value)
		}
		e.use(v.name, isSecret)
		anySecret = anySecret || isSecret
	}
	return plain, anySecret
}

// use records that the configuration uses a variable. It is secret if it is so at any place.
func (e *expander) use(name string, isSecret bool) {
	if !e.disabled {
		e.used[name] = e.used[name] || isSecret
	}
}

var (
	anyVariable = regexp.MustCompile(`\$\{[^}]*\}`)
	authScheme  = regexp.MustCompile(`(?i)^(bearer|basic|token|digest|apikey|api-key)\b`)
)

// hasLiteral reports whether a text has something of its own beside its variables and the name of a scheme, as in Bearer ${TOKEN}.
func hasLiteral(written string) bool {
	rest := strings.TrimSpace(anyVariable.ReplaceAllString(written, " "))
	return strings.ContainsFunc(authScheme.ReplaceAllString(rest, ""), func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) })
}

var userPart = regexp.MustCompile(`://((?:\$\{[^}]*\}|[^/\s"'?#@$])+)@`)

// userPartOf returns what stands before the @ in the URLs of a text.
func userPartOf(written string) string {
	var parts []string
	for _, match := range userPart.FindAllStringSubmatch(written, -1) {
		parts = append(parts, match[1])
	}
	return strings.Join(parts, " ")
}

// usePart marks the variables of a text as secret that have a part of it which is secret.
func (e *expander) usePart(part string, expanded expansion) {
	for _, v := range expanded.values {
		if !v.predefined && v.value != "" && (strings.Contains(v.value, part) || strings.Contains(part, v.value)) {
			e.use(v.name, true)
		}
	}
}

// checkVariables checks the lists `secrets` and `plain`, and adds the values of the first to the secrets.
func (e *expander) checkVariables(c *Config) {
	for at, list := range map[string][]string{"/secrets": c.SecretVariables, "/plain": c.PlainVariables} {
		for i, name := range list {
			if !variableName.MatchString(name) {
				e.faultAt(fault.Index(at, i), fault.BadRequest, "must be the name of an environment variable, without ${}")
			}
		}
	}
	for i, name := range c.SecretVariables {
		at := fault.Index("/secrets", i)
		value, set := e.lookup(name)
		switch {
		case !variableName.MatchString(name):
		case slices.Contains(c.PlainVariables, name):
			e.faultAt(at, fault.BadRequest, "%s stands in plain too: keep one of the two", fault.Clip(name, 60))
		case !set:
			e.warn(e.positions[at], at, "the environment variable %s is not set", fault.Clip(name, 60))
		case len(value) < secret.MinLength:
			e.warn(e.positions[at], at, "the value of %s has fewer than %d bytes, which are not looked for", fault.Clip(name, 60), secret.MinLength)
		}
		if set {
			e.secrets.add(value)
			e.used[name] = true
		}
	}
	for i, name := range c.PlainVariables {
		at := fault.Index("/plain", i)
		if _, used := e.used[name]; !used {
			e.warn(e.positions[at], at, "no setting uses ${%s}", fault.Clip(name, 60))
		}
	}
}

// usedVariables returns the variables that the configuration uses, by name.
func (e *expander) usedVariables() []Variable {
	var list []Variable
	for _, name := range slices.Sorted(maps.Keys(e.used)) {
		list = append(list, Variable{name, e.used[name]})
	}
	return list
}
