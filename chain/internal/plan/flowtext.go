package plan

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// asksSession reports whether literals of the client may have labels.
func (f *flows) asksSession() bool { return f.session != nil && f.policy.model }

// textMarks returns the marks of the value of an expression or a selector: those of what it refers to, where they are if it is one
// reference, else of the whole value. written is the text as the client has sent it; nil: it has not.
func (f *flows) textMarks(scope *flowScope, compiled interface{ Uses() []refs.Use }, at string, written *string) (marks []flowMark) {
	uses := compiled.Uses()
	if len(uses) == 1 && uses[0].Whole {
		if marks = f.useMarks(scope, &uses[0]); written == nil || !hasDefault(&uses[0], *written) {
			return marks
		}
	} else {
		for i := range uses {
			marks = joinMarks(marks, wholly(f.useMarks(scope, &uses[i])))
		}
	}
	if written != nil && scope.own && f.asksSession() && holdsValues(*written) {
		marks = joinMarks(marks, f.sentMarks(at, rawjson.AppendQuote(nil, *written)))
	}
	return marks
}

// hasDefault reports whether the text of a reference may say what its value is if it has none (??).
func hasDefault(u *refs.Use, text string) bool { return u.Lenient && strings.Contains(text, "??") }

// expressionReference matches the references in an expression, with their fixed members.
var expressionReference = regexp.MustCompile(`\$\w+(\??\.\w+|\[\d+\])*`)

// holdsValues reports whether an expression may hold values of its own: texts, numbers or keys of objects. Else it is made of what it
// refers to.
func holdsValues(expression string) bool {
	return strings.ContainsAny(expressionReference.ReplaceAllString(expression, ""), "0123456789\"'`{")
}

// templateMarks returns the marks of the value of a template, each where the reference that brings it stands. at is its JSON Pointer, and
// text the template as the client has sent it; nil: it has not.
func (f *flows) templateMarks(scope *flowScope, t *refs.Template, at string, text []byte) (marks []flowMark) {
	uses := t.Uses()
	for i := range uses {
		u := &uses[i]
		var place []schema.Element
		source, path := f.rootMarks(scope, u)
		for _, m := range source {
			if len(path) > 0 {
				var ok bool
				if m.path, ok = pathWithin(m.path, path); !ok {
					continue
				}
			}
			if place == nil {
				place = f.pointerPath(strings.TrimPrefix(u.At, at))
			}
			if marks == nil {
				marks = takeMemory(&f.markMemory, 2)[:0]
			}
			if m.at = u.At; u.Whole && len(m.path) > 0 {
				m.path = append(slices.Clip(place), m.path...)
			} else {
				m.path = place
			}
			marks = addMark(marks, m)
		}
	}
	if scope.own && text != nil {
		marks = joinMarks(marks, f.literalMarks(at, text, uses))
	}
	return marks
}

// argumentMarks returns the marks of the arguments of a step's call: its own, and those of `common`.
func (f *flows) argumentMarks(scope *flowScope, s *Step, r *StepRequest) (marks []flowMark) {
	switch {
	case s.Args != nil:
		marks = f.templateMarks(scope, s.Args, s.ArgsAt(), r.Args)
	case s.Literal != nil && scope.own:
		marks = f.literalMarks(s.ArgsAt(), s.Literal, nil)
	}
	if len(s.Common) > 0 && scope.own {
		marks = joinMarks(marks, f.literalMarks("/common", WithCommon([]byte("{}"), s.Common), nil))
	}
	if callee := s.Callee(); callee != nil {
		byOwnNames(marks, callee)
	}
	return marks
}

// byOwnNames changes the names of arguments in marks, in place, to those that the function gives them.
func byOwnNames(marks []flowMark, fn *steps.Entry) {
	for i := range marks {
		path := marks[i].path
		if len(path) == 0 {
			continue
		}
		if own := argumentName(fn, path[0].Key); own != path[0].Key {
			marks[i].path = slices.Clone(path)
			marks[i].path[0].Key = own
		}
	}
}

// inputMarks returns the marks of $input: the client has sent its members.
func (f *flows) inputMarks(p *Plan, r *Request) []flowMark {
	if r.anyInput || p.Input == nil {
		return nil
	}
	return f.literalMarks("/input", p.Input, nil)
}

// literalMarks returns the marks of the texts, numbers and other scalars of a value that the client has sent. uses are the references in
// it: a text that is one reference is none of the client's, unless it has a default. root is the JSON Pointer of the value.
func (f *flows) literalMarks(root string, value []byte, uses []refs.Use) (marks []flowMark) {
	if !f.asksSession() {
		return nil
	}
	whole := make(map[string]*refs.Use, len(uses))
	for i := range uses {
		if uses[i].Whole {
			whole[uses[i].At] = &uses[i]
		}
	}
	isReference := func(at, text string) bool {
		u := whole[at]
		return u != nil && !hasDefault(u, text)
	}
	var visit func(at string, v gjson.Result)
	visit = func(at string, v gjson.Result) {
		switch {
		case v.IsArray():
			for i, element := range v.Array() {
				visit(fault.Index(at, i), element)
			}
		case v.IsObject():
			v.ForEach(func(key, member gjson.Result) bool {
				visit(fault.Key(at, key.Str), member)
				return true
			})
		case !isReference(at, v.Raw):
			marks = joinMarks(marks, below(f.pointerPath(strings.TrimPrefix(at, root)), f.sentMarks(at, []byte(v.Raw))))
		}
	}
	visit(root, gjson.ParseBytes(value))
	return marks
}

// sentMarks returns the marks of one value that the client has sent. Their way does not say at which place: an approval is of the way, and
// a resume reads the request in another spelling.
func (f *flows) sentMarks(at string, value []byte) (marks []flowMark) {
	for _, name := range f.session.Sent(value) {
		if label := (steps.Label{Name: name, Model: true}); f.policy.names(label) {
			marks = append(marks, flowMark{Label: label, at: at, way: &flowWay{text: "what a model wrote after it was shown " + name}})
		}
	}
	return marks
}

// useMarks returns the marks of what a reference selects.
func (f *flows) useMarks(scope *flowScope, u *refs.Use) []flowMark {
	marks, path := f.rootMarks(scope, u)
	return within(marks, path)
}

// rootMarks returns the marks of the value that a reference starts from, and the path that it selects there.
func (f *flows) rootMarks(scope *flowScope, u *refs.Use) (marks []flowMark, path []refs.Segment) {
	switch {
	case u.Status:
		return nil, nil
	case u.Root == refs.RootStep && u.Step < len(scope.steps):
		marks = scope.steps[u.Step]
	case u.Root == refs.RootInput:
		marks = scope.input
	case u.Root == refs.RootItem:
		marks = scope.item
	case u.Root == refs.RootResult:
		marks = scope.result
	case u.Root == refs.RootState && f.session != nil && len(u.Path) > 0:
		for _, label := range f.session.State(u.Path[0].Key) {
			marks = addMark(marks, flowMark{Label: label, way: &flowWay{text: "$state." + u.Path[0].Key}})
		}
		return marks, nil
	}
	return marks, u.Path
}
