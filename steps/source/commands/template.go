package commands

import (
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// template is an argument of a program, or its working folder, with places for the arguments of a call.
type template struct {
	texts []string // the fixed texts: one more than names
	names []string // the arguments whose values stand between them
}

// place matches the place of an argument. Braces with anything else in them are plain text, as in {}, {{.Name}} and {print $1}.
var place = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_-]*)\}`)

func parseTemplate(text string) template {
	var t template
	end := 0
	for _, at := range place.FindAllStringSubmatchIndex(text, -1) {
		t.texts = append(t.texts, text[end:at[0]])
		t.names = append(t.names, text[at[2]:at[3]])
		end = at[1]
	}
	t.texts = append(t.texts, text[end:])
	return t
}

// fill returns the texts that a template becomes: none if the value of a place is absent, several if it is a list. values has a list of
// texts for each argument that was given.
func (t *template) fill(values map[string][]string) []string {
	filled := []string{t.texts[0]}
	for i, name := range t.names {
		list, given := values[name]
		if !given {
			return nil
		}
		next := make([]string, 0, len(filled)*len(list))
		for _, before := range filled {
			for _, value := range list {
				next = append(next, before+value+t.texts[i+1])
			}
		}
		filled = next
	}
	return filled
}

// argument is what the command says of one argument of its function.
type argument struct {
	name string
	// guarded refuses values that begin with a dash, which the program would read as options: a value stands before --, and no pattern or
	// enum says which values there may be.
	guarded bool
	path    bool // a value is a path, which must not lead out of the root
}

// texts returns the values of an argument as the program gets them. A value that is no list is one text.
func (a *argument) texts(value gjson.Result) ([]string, *fault.Error) {
	list := []gjson.Result{value}
	if value.IsArray() {
		list = value.Array()
	}
	texts := make([]string, 0, len(list))
	for i, one := range list {
		at := fault.Key("", a.name)
		if value.IsArray() {
			at = fault.Index(at, i)
		}
		if f := a.problem(one, at); f != nil {
			return nil, f
		}
		text, _ := a.text(one)
		texts = append(texts, text)
	}
	return texts, nil
}

// problem returns the fault of a value that the program cannot have; nil: it can.
func (a *argument) problem(value gjson.Result, at string) *fault.Error {
	_, problem := a.text(value)
	if problem == "" {
		return nil
	}
	return fault.New(fault.BadArguments, "%s", problem).Under(at)
}

// text returns a value as the program gets it, or why it cannot have it.
func (a *argument) text(value gjson.Result) (text, problem string) {
	switch value.Type {
	case gjson.String:
		text = value.Str
	case gjson.Number, gjson.True, gjson.False:
		text = value.Raw
	default:
		return "", "an argument of a program is a text, a number, true or false, or a list of these"
	}
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return "", "an argument of a program cannot hold a NUL character"
	case a.guarded && strings.HasPrefix(text, "-"):
		return "", fault.Quote(text) + " begins with a dash, which the program would read as an option: " +
			"the configuration allows such values after -- in run, or by a pattern or an enum in the argument's schema"
	}
	return text, ""
}
