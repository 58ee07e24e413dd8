package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// The arguments of an operation are one flat object. A name on the wire stays if every MCP client accepts it: letters, digits, _ - and .,
// at most 64 with the longest ending below. Other characters become "_" (`page[size]` becomes page_size, `$filter` becomes filter, and
// `ids[]` becomes ids). The end of a longer name is replaced by a hash. If several arguments
// have the same name, the first keeps it, in the order path, query, header, cookie, body; the others end in _query, _header,
// _cookie or _body.

// maxArgument is the maximum length of an argument's name, with its ending.
const maxArgument = 64

// argName returns the argument name for a name on the wire.
func argName(encoded string) string {
	name := strings.Trim(strings.Map(func(c rune) rune {
		if isPlain(c) || c == '_' || c == '-' || c == '.' {
			return c
		}
		return '_'
	}, strings.TrimSuffix(encoded, "[]")), "_")
	name = strings.ReplaceAll(name, "__", "_")
	if strings.HasPrefix(encoded, "_") {
		name = "_" + name // distinct from the name without _
	}
	switch {
	case strings.Trim(name, "_-.") == "":
		return "arg_" + hash(encoded)
	case len(name) > maxArgument-len("_header"): // claimNames may append "_header", the longest ending
		return name[:maxArgument-len("_header")-1-hashDigits] + "_" + hash(encoded)
	}
	return name
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashDigits]
}

// claimNames gives every argument its name, puts the arguments of the body after those of the path, and records their names in b.body.
func (b *builder) claimNames() {
	taken := map[string]int{} // how often a name was requested
	for _, a := range slices.Concat(b.arguments, b.bodyArgs) {
		plain := argName(a.sentName)
		name := plain
		if taken[name] > 0 {
			name = plain + "_" + a.in
		}
		for placed := name; taken[name] > 0; {
			taken[placed]++
			name = placed + "_" + strconv.Itoa(taken[placed])
		}
		taken[name] = 1
		a.arg = name
	}
	cut := 0
	for cut < len(b.arguments) && b.arguments[cut].in == "path" {
		cut++
	}
	b.arguments = slices.Concat(b.arguments[:cut], b.bodyArgs, b.arguments[cut:])
	if b.body == nil {
		return
	}
	if b.body.arg != "" {
		b.body.arg = b.bodyArgs[0].arg
		return
	}
	for _, a := range b.bodyArgs {
		b.body.members = append(b.body.members, member{arg: a.arg, name: a.sentName})
	}
}

// input returns the schema of the flat object. If the schema is too large, input writes it again without descriptions below the members.
func (b *builder) input() json.RawMessage {
	var e *emitter
	for _, terse := range []bool{false, true} {
		e = newEmitter(b.l, true, b.l.limits.input)
		e.terse = terse
		b.writeInput(e)
		if e.open == 0 {
			break
		}
	}
	schema := e.result()
	b.l.size.inputs += len(schema)
	for _, text := range e.warnings {
		b.warn("%s", text)
	}
	return schema
}

func (b *builder) writeInput(e *emitter) {
	e.out = append(e.out, `{"type":"object","properties":{`...)
	var required []string
	for i, a := range b.arguments {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(rawjson.AppendQuote(e.out, a.arg), ':')
		a.write(e)
		if a.required {
			required = append(required, a.arg)
		}
	}
	e.out = append(e.out, '}')
	if len(required) > 0 {
		e.out = append(e.out, `,"required":`...)
		e.strings(required)
	}
	e.out = append(e.out, `,"additionalProperties":false`...)
	e.definitions()
	e.out = append(e.out, '}')
}

// anything writes a schema that allows everything, with the description if it is for arguments.
func (e *emitter) anything(description string) {
	if description == "" || !e.input {
		e.out = append(e.out, "{}"...)
		return
	}
	e.out = append(rawjson.AppendQuote(append(e.out, `{"description":`...), description), '}')
}
