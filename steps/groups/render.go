package groups

import (
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// text returns a unit's member of the answer at a level; nil: it has none. At levelCount, the first unit of a bucket has the number of
// functions in the bucket, and the others have none.
func (p *page) text(i int, l level) []byte {
	u := p.units[i]
	b := &p.buckets[u.bucket]
	switch {
	case l == levelOmitted, l == levelCount && b.units[0] != i:
		return nil
	case l == levelCount:
		return strconv.AppendInt(append(rawjson.AppendQuote(nil, b.name), ':'), int64(b.functions), 10)
	case p.single:
		return p.line(u.functions[0], l)
	}
	opening, end := byte('{'), byte('}')
	if l == levelName {
		opening, end = '[', ']'
	}
	text := append(rawjson.AppendQuote(nil, u.name), ':', opening)
	for n, f := range u.functions {
		if n > 0 {
			text = append(text, ',')
		}
		if l == levelName {
			text = rawjson.AppendQuote(text, callText(f))
		} else {
			text = append(text, p.line(f, l)...)
		}
	}
	return append(text, end)
}

// line formats an action and its description.
func (p *page) line(f *function, l level) []byte {
	spec := f.entry.Spec()
	text := append(rawjson.AppendQuote(nil, callText(f)), ':')
	signature := strings.TrimPrefix(f.entry.Signature(), spec.Name)
	comment := ""
	switch {
	case l > levelCall || p.taught(f):
		return append(text, "null"...)
	case l == levelSchemas:
		return append(text, fullDetails(f, signature)...)
	case l == levelCall:
		signature = withoutResult(signature)
	case l == levelDescription:
		comment = strings.Join(strings.Fields(spec.Description), " ")
	case l == levelSummary:
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

// withoutResult cuts a signature after its arguments.
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

// fullDetails formats everything about a function that a caller may need.
func fullDetails(f *function, signature string) []byte {
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
	if seen := f.entry.ResultShape(); seen != nil {
		text = append(append(text, `,"seen":`...), seen.Schema...)
	}
	return append(text, '}')
}

// callText returns an action as a call writes it.
func callText(f *function) string {
	if isHelp(f.action) {
		return dotted(f.label, f.action)
	}
	return f.action
}

// render writes the answer with the units' current levels.
func (p *page) render() []byte {
	var inner []byte
	hasSignatures := false // some unit may show signatures
	for _, u := range p.units {
		hasSignatures = hasSignatures || p.levels[u.at] <= levelCall
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
	case hasSignatures:
		text = append(append(append(rawjson.AppendQuote(text, p.functions[0].label), ":{"...), inner...), '}')
	default:
		text = append(p.actions(append(rawjson.AppendQuote(text, p.functions[0].label), ":["...)), ']')
	}
	text = append(text, '}')
	for _, hint := range p.hints() {
		text = append(append(text, `,"`+hint.name+`":`...), hint.value...)
	}
	return append(text, '}')
}

// actions appends the names of the actions of the one resource.
func (p *page) actions(text []byte) []byte {
	first := true
	for _, u := range p.units {
		if p.levels[u.at] == levelOmitted {
			continue
		}
		if !first {
			text = append(text, ',')
		}
		text, first = rawjson.AppendQuote(text, callText(u.functions[0])), false
	}
	return text
}

type hint struct {
	name  string
	value []byte
}

// hints returns hints about omitted parts of the answer and how to get them.
func (p *page) hints() []hint {
	var hints []hint
	var reduced *unit // the largest that shows less than was requested
	numbers, taught, omitted := false, false, 0
	for _, u := range p.units {
		l := p.levels[u.at]
		if l == levelOmitted {
			omitted++
			continue
		}
		if u.at > 0 && (reduced == nil || len(u.functions) > len(reduced.functions)) {
			reduced = u
		}
		numbers = numbers || l == levelCount
		for _, f := range u.functions {
			taught = taught || l <= levelCall && p.taught(f)
		}
	}
	add := func(name, text string) { hints = append(hints, hint{name, rawjson.AppendQuote(nil, text)}) }
	if taught {
		add("null", "signature given before in this session; again:true repeats it")
	}
	if reduced != nil {
		add("more", p.narrowerCall(reduced, numbers)+" shows more")
	}
	if omitted > 0 {
		what := "more_resources"
		if p.single {
			what = "more_actions"
		}
		hints = append(hints, hint{what, strconv.AppendInt(nil, int64(omitted), 10)})
	}
	return hints
}

// narrowerCall returns a call for more specific help on a unit. numbers reports whether the answer shows some resources as numbers.
func (p *page) narrowerCall(u *unit, numbers bool) string {
	switch {
	case p.single:
		f := u.functions[0]
		return `{"action":"help","params":{"action":` + string(rawjson.AppendQuote(nil, dotted(f.label, f.action))) + `}}`
	case numbers:
		name := u.name
		if p.levels[u.at] == levelCount {
			name = p.buckets[u.bucket].name
		}
		return `numbers count functions; {"action":"help","resource":` + string(rawjson.AppendQuote(nil, name)) + `}`
	}
	return `{"action":"help","resource":` + string(rawjson.AppendQuote(nil, u.name)) + `}`
}
