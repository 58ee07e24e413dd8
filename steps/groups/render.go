package groups

import (
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// text writes a unit's member of the answer at a level. The number of a bucket stands with the first of its units.
func (p *page) text(i int, l level) []byte {
	u := p.units[i]
	b := &p.buckets[u.bucket]
	switch {
	case l == gone, l == counted && b.units[0] != i:
		return nil
	case l == counted:
		return strconv.AppendInt(append(rawjson.AppendQuote(nil, b.name), ':'), int64(b.functions), 10)
	case p.single:
		return p.line(u.functions[0], l)
	}
	begin, end := byte('{'), byte('}')
	if l == named {
		begin, end = '[', ']'
	}
	text := append(rawjson.AppendQuote(nil, u.name), ':', begin)
	for n, f := range u.functions {
		if n > 0 {
			text = append(text, ',')
		}
		if l == named {
			text = rawjson.AppendQuote(text, shown(f))
		} else {
			text = append(text, p.line(f, l)...)
		}
	}
	return append(text, end)
}

// line writes an action and what is told of it.
func (p *page) line(f *function, l level) []byte {
	spec := f.entry.Spec()
	text := append(rawjson.AppendQuote(nil, shown(f)), ':')
	signature := strings.TrimPrefix(f.entry.Signature(), spec.Name)
	comment := ""
	switch {
	case l > called || p.taught(f):
		return append(text, "null"...)
	case l == schemas:
		return append(text, lossless(f, signature)...)
	case l == called:
		signature = withoutResult(signature)
	case l == described:
		comment = strings.Join(strings.Fields(spec.Description), " ")
	case l == summed:
		comment = f.entry.Summary()
	}
	if spec.Effect != steps.Read {
		signature += " [" + spec.Effect.String() + "]"
	}
	if comment != "" {
		signature += " // " + comment
	}
	return rawjson.AppendQuote(text, signature)
}

// withoutResult is a signature to the end of its arguments.
func withoutResult(signature string) string {
	depth, quoted := 0, false
	for i := 0; i < len(signature); i++ {
		switch c := signature[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return signature[:i+1]
			}
		}
	}
	return signature
}

// lossless writes all that is known of a function for its caller.
func lossless(f *function, signature string) []byte {
	spec := f.entry.Spec()
	text := rawjson.AppendQuote([]byte(`{"signature":`), signature)
	if spec.Description != "" {
		text = rawjson.AppendQuote(append(text, `,"description":`...), spec.Description)
	}
	text = append(text, `,"effect":"`+spec.Effect.String()+`"`...)
	if len(spec.Input) > 0 {
		text = append(append(text, `,"inputSchema":`...), spec.Input...)
	}
	if len(spec.Output) > 0 {
		text = append(append(text, `,"outputSchema":`...), spec.Output...)
	}
	if seen := f.entry.Seen(); seen != nil {
		text = append(append(text, `,"seen":`...), seen.Schema...)
	}
	return append(text, '}')
}

// shown is an action as a call writes it.
func shown(f *function) string {
	if isHelp(f.action) {
		return dotted(f.label, f.action)
	}
	return f.action
}

// render writes the answer as the units stand.
func (p *page) render() []byte {
	var inner []byte
	signs := false // a signature may stand somewhere
	for _, u := range p.units {
		signs = signs || p.levels[u.at] <= called
		if text := u.texts[u.at]; len(text) > 0 {
			if len(inner) > 0 {
				inner = append(inner, ',')
			}
			inner = append(inner, text...)
		}
	}
	text := []byte(`{"resources":{`)
	switch {
	case !p.single:
		text = append(text, inner...)
	case signs:
		text = append(append(append(rawjson.AppendQuote(text, p.functions[0].label), ":{"...), inner...), '}')
	default:
		text = append(p.actions(append(rawjson.AppendQuote(text, p.functions[0].label), ":["...)), ']')
	}
	text = append(text, '}')
	for _, note := range p.notes() {
		text = append(append(text, `,"`+note.name+`":`...), note.value...)
	}
	return append(text, '}')
}

// actions writes the names of the actions of the one resource.
func (p *page) actions(text []byte) []byte {
	first := true
	for _, u := range p.units {
		if p.levels[u.at] == gone {
			continue
		}
		if !first {
			text = append(text, ',')
		}
		text, first = rawjson.AppendQuote(text, shown(u.functions[0])), false
	}
	return text
}

type note struct {
	name  string
	value []byte
}

// notes say what the answer has left out, and how to get it.
func (p *page) notes() []note {
	var notes []note
	var reduced *unit // the largest that tells less than was asked for
	numbers, taught, left := false, false, 0
	for _, u := range p.units {
		l := p.levels[u.at]
		if l == gone {
			left++
			continue
		}
		if u.at > 0 && (reduced == nil || len(u.functions) > len(reduced.functions)) {
			reduced = u
		}
		numbers = numbers || l == counted
		for _, f := range u.functions {
			taught = taught || l <= called && p.taught(f)
		}
	}
	add := func(name, text string) { notes = append(notes, note{name, rawjson.AppendQuote(nil, text)}) }
	if taught {
		add("null", "signature given before in this session; again:true repeats it")
	}
	if reduced != nil {
		add("more", p.narrower(reduced, numbers)+" shows more")
	}
	if left > 0 {
		what := "more_resources"
		if p.single {
			what = "more_actions"
		}
		notes = append(notes, note{what, strconv.AppendInt(nil, int64(left), 10)})
	}
	return notes
}

// narrower is a call for help about less.
func (p *page) narrower(u *unit, numbers bool) string {
	switch {
	case p.single:
		f := u.functions[0]
		return `{"action":"help","params":{"action":` + string(rawjson.AppendQuote(nil, dotted(f.label, f.action))) + `}}`
	case numbers:
		name := u.name
		if p.levels[u.at] == counted {
			name = p.buckets[u.bucket].name
		}
		return `numbers count functions; {"action":"help","resource":` + string(rawjson.AppendQuote(nil, name)) + `}`
	}
	return `{"action":"help","resource":` + string(rawjson.AppendQuote(nil, u.name)) + `}`
}
