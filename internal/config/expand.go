package config

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// expandAll expands the variables in the fields that have the tag expand, collects the secrets, and checks what could not be checked
// before. It expands nothing in a disabled server, whose variables need not be set. The values of the tag:
//
//	text        anything
//	url         an http or https URL
//	arguments   of a command
//	template    the URL of an endpoint
//	env         variables of a server, secret if their names look like it
//	headers     headers of a server, as clients write them
//	ownHeaders  headers of onecall's own sources: a credential must be given by a variable
//	query       parameters of an endpoint, as JSON: a credential must be given by a variable
//	value       JSON, whose strings are expanded
//	credential  must be given by a variable
func (d *decoder) expandAll(c *File, lookup func(string) (string, bool)) {
	c.Unset = map[string]*fault.Error{}
	e := &expander{decoder: d, variables: &variables{lookup: lookup, folder: filepath.Dir(c.Path)}, unset: c.Unset, used: map[string]bool{},
		forced: c.SecretVariables, plain: c.PlainVariables}
	e.walk(reflect.ValueOf(&c.Config).Elem(), "")
	e.checkVariables(&c.Config)
	c.Variables = e.usedVariables()
	d.checkResultStore(c.Results.Store)
	if j := c.Journal.Store; j == nil || !databaseURL.MatchString(*j) {
		d.checkStore("/journal/store", j, []string{"sqlite", "memory", "off"}, "postgres://…")
	}
	d.checkJournal(c)
	d.checkSharedResults(&c.Config)
	d.checkExpandedAccess(&c.Access)
	own := func(at string, a *Auth) {
		if c.Unset[at] == nil {
			d.checkExpandedOwn(at+"/auth", a, &c.Config)
		}
	}
	for i := range c.MCPServers {
		own(fault.Key("/mcpServers", c.MCPServers[i].Name), c.MCPServers[i].Config.Auth)
	}
	for i := range c.OpenAPI {
		own(fault.Key("/openapi", c.OpenAPI[i].Name), c.OpenAPI[i].Config.Own)
	}
	for i := range c.HTTP.Endpoints {
		own(fault.Key("/http/endpoints", c.HTTP.Endpoints[i].Name), c.HTTP.Endpoints[i].Config.Auth)
	}
}

type expander struct {
	*decoder
	*variables
	template bool // the texts belong to an endpoint, which reads them again as templates
	disabled bool // the entry is disabled: nothing is expanded, and secrets are only masked

	source string // the pointer of the entry, if it is a source, which may fail alone
	unset  map[string]*fault.Error

	forced, plain []string        // variables that are always secret, or never
	used          map[string]bool // the variables used so far; true: secret
}

// walk expands everything in a value.
func (e *expander) walk(v reflect.Value, at string) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		e.walk(v.Elem(), at)
	case v.Kind() == reflect.Struct:
		e.object(v, at)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			if entry := v.Index(i).FieldByName("Config"); entry.IsValid() {
				e.walk(entry, fault.Key(at, v.Index(i).FieldByName("Name").String()))
			} else {
				e.walk(v.Index(i), fault.Index(at, i))
			}
		}
	}
}

// object expands the fields of a struct.
func (e *expander) object(target reflect.Value, at string) {
	switch one := target.Addr().Interface().(type) {
	case *Endpoint:
		e.template = true
		defer func() { e.template = false }()
	case *MCPServer:
		e.disabled, e.source = one.Off(), at
		defer func() { e.disabled, e.source = false, "" }()
	case *OpenAPI:
		e.source = at
		defer func() { e.source = "" }()
	}
	for i, known := range tables[target.Type()].fields {
		field, kind, pointer := target.Field(i), known.expand, fault.Key(at, known.key)
		if kind == "" {
			e.walk(field, pointer)
			continue
		}
		switch value := field.Interface().(type) {
		case *string:
			if value != nil {
				*value = e.text(*value, pointer, kind, "")
			}
			if kind == "url" && !e.disabled && e.unset[e.source] == nil {
				e.checkURL(pointer, value)
			}
		case []string:
			e.list(value, pointer, kind)
		case map[string]string:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				value[name] = e.text(value[name], fault.Key(pointer, name), kind, name)
			}
		case map[string]json.RawMessage:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				value[name] = e.json(gjson.ParseBytes(value[name]), fault.Key(pointer, name), kind, name)
			}
		case json.RawMessage:
			if len(value) > 0 {
				field.SetBytes(e.json(gjson.ParseBytes(value), pointer, kind, ""))
			}
		}
	}
}

func (e *expander) list(values []string, at, kind string) {
	previous := "" // the previous argument, as written
	for i, written := range values {
		if kind != "arguments" {
			values[i] = e.text(written, fault.Index(at, i), kind, "")
			continue
		}
		flag := flagOf(previous, written)
		expanded := e.text(written, fault.Index(at, i), kind, flag)
		e.collectArgument(flag, written, expanded)
		values[i], previous = expanded, written
	}
}

// json expands the strings in a JSON value, which is a member called name.
func (e *expander) json(value gjson.Result, at, kind, name string) json.RawMessage {
	switch {
	case value.Type == gjson.String:
		if text := e.text(value.Str, at, kind, name); text != value.Str {
			return gjson.AppendJSONString(nil, text)
		}
	case value.IsArray():
		out := []byte{'['}
		for i, element := range value.Array() {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, e.json(element, fault.Index(at, i), kind, name)...)
		}
		return append(out, ']')
	case value.IsObject():
		out := []byte{'{'}
		value.ForEach(func(key, member gjson.Result) bool {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(out, key.Raw...), ':')
			out = append(out, e.json(member, fault.Key(at, key.Str), kind, key.Str)...)
			return true
		})
		return append(out, '}')
	}
	return json.RawMessage(value.Raw)
}

// text expands one string and collects its secrets. name is the name of the header, variable or member, or "". If there is a fault, text
// returns the string unchanged.
func (e *expander) text(written, at, kind, name string) string {
	expanded := expansion{text: written, plain: written}
	credential := kind == "credential" || (kind == "ownHeaders" || kind == "query") && secret.Name(name)
	if !e.disabled {
		var f *fault.Error
		if expanded, f = e.expand(written); f == nil && e.template {
			f = checkTemplateValues(expanded, kind)
		}
		if f != nil {
			e.collect(written, kind, name)
			e.collectParts(expansion{text: written}, kind, nil)
			var unset *unsetError
			missing := errors.As(f, &unset)
			if missing && credential { // which may have no default
				f.Message = unset.Error() + ": set it"
			}
			if e.source != "" && missing { // only this source fails
				if e.unset[e.source] == nil {
					e.unset[e.source] = f.Under(at)
				}
				return written
			}
			e.add(e.positions[at], at, f)
			return written
		}
	}
	if credential && !e.disabled && !e.requireVariable(expanded, at) {
		e.addLiteral(written)
		return written
	}
	if kind == "template" {
		e.checkURLCredentials(written, at)
	}
	for _, one := range expanded.values {
		if secret.Name(one.name) || secret.Name(name) {
			e.addLiteral(one.fallback)
		}
	}
	judged := kind
	if credential {
		judged = "credential"
	}
	plain, anySecret := e.judge(expanded, written, judged, name)
	e.collectParts(expanded, kind, plain)
	whole := e.collect(written, kind, name)
	if len(expanded.values) == 0 || hasLiteral(written) { // what is literal may be a part of the secret
		anySecret = anySecret || !secret.Plain(expanded.text)
	}
	if whole && anySecret && !(e.template && refersToInput(expanded.text)) {
		e.addSecret(expanded.text)
	}
	return expanded.text
}

// collectParts adds the parts of an expanded text that are secret by their own names, except for plain values.
func (e *expander) collectParts(expanded expansion, kind string, plain []string) {
	text := expanded.text
	if kind == "template" {
		text = withoutExpressions(text)
	}
	for _, part := range append(secretsIn(text), secretsOfURL(text)...) {
		if !slices.Contains(plain, part) {
			e.addSecret(part)
			e.usePart(part, expanded)
		}
	}
}

// collect adds the parts of the written text that must not be shown. whole reports whether the whole string is secret.
func (e *expander) collect(written, kind, name string) (whole bool) {
	whole = kind == "credential" || (kind == "ownHeaders" || kind == "query") && secret.Name(name) ||
		kind == "env" && secret.Variable(name, written) ||
		strings.HasSuffix(strings.ToLower(kind), "headers") && SecretHeader(name)
	if whole && !(e.template && refersToInput(written)) {
		e.addLiteral(written)
	}
	if kind == "template" {
		written = withoutExpressions(written)
	}
	for _, secret := range secretsIn(written) {
		e.addLiteral(secret)
	}
	return whole
}

// addSecret adds a value that must not leave onecall.
func (e *expander) addSecret(value string) {
	if !e.disabled {
		e.secrets.add(value)
	}
}

// checkTemplateValues refuses a variable whose value an endpoint would parse as part of its template. The fault does not show the value.
func checkTemplateValues(got expansion, kind string) *fault.Error {
	inJSON := kind == "query" || kind == "value"
	for _, one := range got.values {
		if strings.ContainsAny(one.value, "{}") || strings.Contains(one.value, "$input") || inJSON && strings.HasPrefix(one.value, "$") {
			return fault.New(fault.BadRequest,
				"the value of the variable %s holds what an endpoint reads as its template: $input, {, }, or a $ at its beginning",
				fault.Clip(one.name, 60))
		}
	}
	if len(got.values) > 0 && strings.Contains(got.text, "$input") && !strings.Contains(got.plain, "$input") {
		return fault.New(fault.BadRequest, "with the value of the variable %s the text would refer to $input: write the reference itself",
			fault.Clip(got.values[0].name, 60))
	}
	return nil
}

// checkURLCredentials adds a fault for a secret parameter of an endpoint's URL that is not given by a variable.
func (e *expander) checkURLCredentials(written, at string) {
	_, query, _ := strings.Cut(withoutExpressions(written), "?")
	for pair := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' || c == '#' }) {
		name, value, _ := strings.Cut(pair, "=")
		if !secret.Name(name) || value == "" {
			continue
		}
		e.addLiteral(value)
		if got, f := e.expand(value); f == nil && !e.requireVariable(got, at) {
			return
		}
	}
}

// withoutExpressions removes the expressions of a URL template.
func withoutExpressions(template string) string {
	return inTemplate.ReplaceAllStringFunc(template, func(expression string) string {
		if expression[0] == '$' {
			return expression
		}
		return ""
	})
}

// inTemplate matches an environment variable or an expression of a URL template.
var inTemplate = regexp.MustCompile(`\$?\{[^{}]*\}`)

var (
	// assignedArgument matches an argument that gives a value to a name: --key=value, NAME=value, Header: value.
	assignedArgument = regexp.MustCompile(`^-{0,2}([A-Za-z0-9_-]+)[=:] *(\S.*)$`)
	// notPassword matches what follows -p if that means a port, a path or a package.
	notPassword = regexp.MustCompile(`^[0-9:.]*(/(tcp|udp))?$|[/@]`)
)

// flagOf returns the name that an argument of a command gives a value to: --key=value, Header: value, or the flag before it. -k is taken
// for the flag of a key. "": there is none.
func flagOf(previous, argument string) string {
	if match := assignedArgument.FindStringSubmatch(argument); match != nil {
		return match[1]
	}
	if !strings.HasPrefix(previous, "-") || strings.Contains(previous, "=") || strings.HasPrefix(argument, "-") {
		return ""
	}
	if previous == "-k" {
		return "key"
	}
	return previous
}

// collectArgument collects the secret in an argument of a command that is written without a variable, and what of it must not be shown. -p
// may take a password or a package: its value is not shown, and is a secret only if it looks like a key.
func (e *expander) collectArgument(flag, written, value string) {
	hidden := written
	if match := assignedArgument.FindStringSubmatch(written); match != nil {
		hidden = match[2]
	}
	isSecret := secret.Name(flag)
	if flag == "-p" && !notPassword.MatchString(hidden) {
		e.addLiteral(hidden)
		isSecret = secret.LooksLikeKey(hidden)
	}
	if isSecret {
		e.addLiteral(hidden)
	}
	if isSecret && value == written {
		e.addSecret(hidden)
	}
}

// requireVariable adds a fault unless a credential comes from the environment or from the arguments of a call. It reports whether it does.
func (e *expander) requireVariable(got expansion, at string) bool {
	fallback := slices.ContainsFunc(got.values, func(v variable) bool { return v.fallback != "" })
	if len(got.values) > 0 && !fallback || e.template && byInput(got.plain) {
		return true
	}
	e.decoder.faultAt(at, fault.BadRequest,
		"a credential must not be in the configuration itself: set an environment variable and write ${NAME}, without a default")
	return false
}

var (
	wholeInput    = regexp.MustCompile(`^\$input([.\[]\S*)?$`)
	embeddedInput = regexp.MustCompile(`\$\{\$input[^}]*\}`)
	// scheme matches the text around an argument in a header: a scheme such as Bearer, perhaps with a name as in Token token="…".
	scheme = regexp.MustCompile(`^[^A-Za-z0-9]*[A-Za-z]{0,12}[^A-Za-z0-9]*([A-Za-z]+=[^A-Za-z0-9]*)?$`)
)

// byInput reports whether a credential is given by arguments of the call, alone or after a scheme.
func byInput(text string) bool {
	rest := embeddedInput.ReplaceAllString(text, "")
	return wholeInput.MatchString(text) || rest != text && scheme.MatchString(rest)
}

// refersToInput reports whether a text of an endpoint uses arguments of the call.
func refersToInput(text string) bool {
	return wholeInput.MatchString(text) || strings.Contains(text, "${$input")
}

// SecretHeader reports whether a header's value must not appear in results and logs.
func SecretHeader(name string) bool {
	return !egress.SafeHeader(name) && !strings.Contains(strings.ToLower(name), "version")
}

func (e *expander) addLiteral(text string) {
	e.literals = append(e.literals, text)
}
