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

// expandAll fills in the variables of the fields that say so by the tag expand, and collects the secrets. Of a server
// that is disabled nothing is filled in: its variables need not be set. The words of the tag:
//
//	text        anything
//	url         a URL of HTTP
//	arguments   of a command
//	template    the URL of an endpoint
//	env         variables of a server, secret where their names look like it
//	headers     headers of a server, as clients write them
//	ownHeaders  headers of onecall's own sources: a credential must be given by a variable
//	query       parameters of an endpoint, as JSON: likewise
//	value       JSON, of which the strings are filled in
//	credential  must be given by a variable
func (d *decoder) expandAll(c *File, lookup func(string) (string, bool)) {
	c.Unset = map[string]*fault.Error{}
	e := &expander{decoder: d, variables: &variables{lookup: lookup, folder: filepath.Dir(c.Path)}, unset: c.Unset}
	e.walk(reflect.ValueOf(&c.Config).Elem(), "")
	d.checkStore("/results/store", c.Results.Store, knownStore, "redis://…", "memory", "disk")
	d.checkStore("/journal/store", c.Journal.Store, knownDatabase, "postgres://…", "sqlite", "memory", "off")
	d.checkJournal(c)
	d.checkFilledAccess(&c.Access)
}

type expander struct {
	*decoder
	*variables
	template bool // the texts are an endpoint's: they are read once more, as templates
	off      bool // the entry is not used: nothing is filled in, and only what it shows matters

	source string // the pointer of the entry, if it is a source that may be down
	unset  map[string]*fault.Error
}

// walk fills in what is under a place.
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

// object fills in the fields of a struct.
func (e *expander) object(of reflect.Value, at string) {
	switch one := of.Addr().Interface().(type) {
	case *Endpoint:
		e.template = true
		defer func() { e.template = false }()
	case *MCPServer:
		e.off, e.source = one.Off(), at
		defer func() { e.off, e.source = false, "" }()
	case *OpenAPI:
		e.source = at
		defer func() { e.source = "" }()
	}
	for i, known := range tables[of.Type()].fields {
		field, kind, pointer := of.Field(i), known.expand, fault.Key(at, known.key)
		if kind == "" {
			e.walk(field, pointer)
			continue
		}
		switch value := field.Interface().(type) {
		case *string:
			if value != nil {
				*value = e.text(*value, pointer, kind, "")
			}
			if kind == "url" && !e.off && e.unset[e.source] == nil {
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
	previous := "" // as written
	for i, written := range values {
		values[i] = e.text(written, fault.Index(at, i), kind, "")
		if kind == "arguments" {
			e.argument(previous, written, values[i])
		}
		previous = written
	}
}

// json fills in the strings of a JSON value, in their places; name is that of the member that it is.
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

// text fills in one string, and notes its secrets; name is that of the header, variable or member, "" where there is
// none. It is the string itself where there is a fault.
func (e *expander) text(written, at, kind, name string) string {
	got := filled{text: written, plain: written}
	if !e.off {
		var f *fault.Error
		if got, f = e.fill(written); f == nil && e.template {
			f = templateInValue(got, kind)
		}
		if f != nil {
			e.note(written, written, kind, name)
			if e.source != "" && errors.Is(f, errUnset) { // only this source is down
				if e.unset[e.source] == nil {
					e.unset[e.source] = f.Under(at)
				}
				return written
			}
			e.add(e.places[at], at, f)
			return written
		}
	}
	credential := kind == "credential" || (kind == "ownHeaders" || kind == "query") && secret.Name(name)
	if credential && !e.off && !e.byVariable(got, at) {
		e.literal(written)
		return written
	}
	if kind == "template" {
		e.urlCredentials(written, at)
	}
	for _, one := range got.values {
		if secret.Name(one.name) || credential || secret.Name(name) && (kind == "value" || kind == "query") {
			e.secret(one.value)
		}
		if secret.Name(one.name) || secret.Name(name) {
			e.literal(one.fallback)
		}
	}
	if whole := e.note(written, got.text, kind, name); whole && !(e.template && refersToInput(got.text)) {
		e.secret(got.text)
	}
	return got.text
}

// note notes the secrets that a string holds, and what of it is not to be shown. whole tells that all of it is a secret.
func (e *expander) note(written, text, kind, name string) (whole bool) {
	whole = kind == "credential" || (kind == "ownHeaders" || kind == "query" || kind == "env") && secret.Name(name) ||
		strings.HasSuffix(strings.ToLower(kind), "headers") && SecretHeader(name)
	if whole && !(e.template && refersToInput(text)) {
		e.literal(written)
	}
	if kind == "template" {
		written, text = withoutExpressions(written), withoutExpressions(text)
	}
	if !e.off {
		for _, found := range secretsIn(text) {
			e.secret(found)
		}
		e.secrets.addURL(text)
	}
	for _, part := range secretsIn(written) {
		e.literal(part)
	}
	if kind == "env" && secret.Variable(name, written) {
		e.literal(written)
	}
	return whole
}

// secret notes a value that must not leave onecall.
func (e *expander) secret(value string) {
	if !e.off {
		e.secrets.add(value)
	}
}

// templateInValue refuses a variable whose value an endpoint would read as a part of its template. The fault does not
// show the value.
func templateInValue(got filled, kind string) *fault.Error {
	inJSON := kind == "query" || kind == "value"
	for _, one := range got.values {
		if strings.ContainsAny(one.value, "{}") || strings.Contains(one.value, "$input") || inJSON && strings.HasPrefix(one.value, "$") {
			return fault.New(fault.BadRequest, "the value of the variable %s holds what an endpoint reads as its template: $input, {, }, or a $ at its beginning", fault.Clip(one.name, 60))
		}
	}
	if len(got.values) > 0 && strings.Contains(got.text, "$input") && !strings.Contains(got.plain, "$input") {
		return fault.New(fault.BadRequest, "with the value of the variable %s the text would refer to $input: write the reference itself", fault.Clip(got.values[0].name, 60))
	}
	return nil
}

// urlCredentials reports the secret parameters of an endpoint's URL that are written out.
func (e *expander) urlCredentials(written, at string) {
	_, query, _ := strings.Cut(withoutExpressions(written), "?")
	for pair := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' || c == '#' }) {
		name, value, _ := strings.Cut(pair, "=")
		if !secret.Name(name) || value == "" {
			continue
		}
		e.literal(value)
		if got, f := e.fill(value); f == nil && !e.byVariable(got, at) {
			return
		}
	}
}

// withoutExpressions is the template of a URL without what a call's arguments stand for.
func withoutExpressions(template string) string {
	return inTemplate.ReplaceAllStringFunc(template, func(expression string) string {
		if expression[0] == '$' {
			return expression
		}
		return ""
	})
}

// inTemplate is a variable of the environment, or an expression of a URL's template.
var inTemplate = regexp.MustCompile(`\$?\{[^{}]*\}`)

var (
	// assignedArgument is an argument that gives a value to a name: --key=value, NAME=value, Header: value.
	assignedArgument = regexp.MustCompile(`^-{0,2}([A-Za-z0-9_-]+)[=:] *(\S.*)$`)
	// notPassword is what follows -p where it means a port, a path or a package.
	notPassword = regexp.MustCompile(`^[0-9:.]*(/(tcp|udp))?$|[/@]`)
)

// argument notes the secret in one argument of a command: after its name, or after a flag that is the argument before.
// -k is taken for a key. -p may be a password or a package: it is not shown, and not looked for elsewhere unless it looks
// like a key.
func (e *expander) argument(previous, written, value string) {
	hidden, shown := value, written
	if parts := assignedArgument.FindStringSubmatch(value); parts != nil {
		if previous, hidden = parts[1], parts[2]; len(hidden) <= len(written) && strings.HasSuffix(written, hidden) {
			shown = hidden
		}
	} else if !strings.HasPrefix(previous, "-") || strings.Contains(previous, "=") || strings.HasPrefix(value, "-") {
		return
	}
	switch {
	case secret.Name(previous), previous == "-k":
		e.secret(hidden)
	case previous != "-p" || notPassword.MatchString(hidden):
		return
	case secret.LooksLikeKey(hidden):
		e.secret(hidden)
	}
	e.literal(shown)
}

// byVariable reports whether a credential comes from the environment, or from a call's arguments, and reports it where it
// does not.
func (e *expander) byVariable(got filled, at string) bool {
	fallback := slices.ContainsFunc(got.values, func(v variable) bool { return v.fallback != "" })
	if len(got.values) > 0 && !fallback || e.template && byInput(got.plain) {
		return true
	}
	e.decoder.at(at, fault.BadRequest, "a credential must not stand in the configuration: set a variable of the environment and write ${NAME}, without a default")
	return false
}

var (
	wholeInput    = regexp.MustCompile(`^\$input([.\[]\S*)?$`)
	embeddedInput = regexp.MustCompile(`\$\{\$input[^}]*\}`)
	scheme        = regexp.MustCompile(`^[^A-Za-z0-9]*[A-Za-z]{0,12}[^A-Za-z0-9]*([A-Za-z]+=[^A-Za-z0-9]*)?$`)
)

// byInput reports whether a credential is a call's argument, alone or after the name of a scheme.
func byInput(text string) bool {
	rest := embeddedInput.ReplaceAllString(text, "")
	return wholeInput.MatchString(text) || rest != text && scheme.MatchString(rest)
}

// refersToInput reports whether a text of an endpoint is made of a call's arguments.
func refersToInput(text string) bool {
	return wholeInput.MatchString(text) || strings.Contains(text, "${$input")
}

// SecretHeader reports whether a header's value is to be kept from results and logs.
func SecretHeader(name string) bool {
	return !egress.SafeHeader(name) && !strings.Contains(strings.ToLower(name), "version")
}

func (e *expander) literal(text string) {
	e.literals = append(e.literals, text)
}
