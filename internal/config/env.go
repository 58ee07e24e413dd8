package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// variables expands what stands between ${ and } in the strings of a configuration:
//
//	${NAME}, ${env:NAME}   an environment variable, which must be set, but may be empty
//	${NAME:-text}          the same, or the text if it is not set
//	${workspaceFolder}     the folder of the configuration's file
//	${userHome}            the user's home folder
//	${pathSeparator}, ${/} the separator of paths
//
// The forms that only clients know (${input:…}, ${command:…}, ${config:…}, ${file:…}) are faults. Anything else between ${ and } is text,
// such as the references of chains. As in the clients, ${NAME} cannot be escaped, and $NAME is text.
type variables struct {
	lookup func(string) (string, bool)
	folder string // of the configuration
}

// expansion is a string with its variables expanded.
type expansion struct {
	text   string
	plain  string     // the text without the variables
	values []variable // in order
}

// variable is an expanded variable with its default.
type variable struct {
	name, value, fallback string
	predefined            bool // it is not an environment variable
}

// unsetError is the cause of the fault of a missing variable.
type unsetError struct{ name string }

func (e *unsetError) Error() string {
	return "the environment variable " + fault.Clip(e.name, 60) + " is not set"
}

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	foreignForm  = regexp.MustCompile(`^(input|command|config|file):`)
)

// expand expands the variables of a text. The fault contains no value.
func (v *variables) expand(text string) (expansion, *fault.Error) {
	var out, plain strings.Builder
	var values []variable
	for {
		before, rest, ok := strings.Cut(text, "${")
		out.WriteString(before)
		plain.WriteString(before)
		if !ok {
			break
		}
		inside, after, closed := strings.Cut(rest, "}")
		expanded, isVariable, f := v.value(inside)
		switch {
		case f != nil:
			return expansion{}, f
		case !closed || !isVariable:
			out.WriteString("${")
			plain.WriteString("${")
			text = rest
			continue
		}
		out.WriteString(expanded.value)
		values = append(values, expanded)
		text = after
	}
	return expansion{out.String(), plain.String(), values}, nil
}

// value expands the text between ${ and }; ok is false if that is not a variable.
func (v *variables) value(inside string) (expanded variable, ok bool, f *fault.Error) {
	switch inside {
	case "workspaceFolder":
		folder, err := filepath.Abs(v.folder)
		if err != nil {
			return expanded, false, fault.New(fault.BadRequest, "${workspaceFolder}: the folder of the configuration is not known: %v",
				textfile.Cause(err))
		}
		return variable{name: inside, value: folder, predefined: true}, true, nil
	case "userHome":
		home, err := os.UserHomeDir()
		if err != nil {
			return expanded, false, fault.New(fault.BadRequest, "${userHome}: the user has no home folder: write the path")
		}
		return variable{name: inside, value: home, predefined: true}, true, nil
	case "pathSeparator", "/":
		return variable{name: inside, value: string(filepath.Separator), predefined: true}, true, nil
	}
	if form := foreignForm.FindString(inside); form != "" {
		return expanded, false, fault.New(fault.NotSupported,
			"${%s…} is filled in by the program that this was written for, not by onecall: set an environment variable and write ${NAME}",
			form)
	}
	name, fallback, hasFallback := strings.Cut(inside, ":-")
	name, prefixed := strings.CutPrefix(name, "env:")
	if !variableName.MatchString(name) && (!prefixed || name == "") {
		return expanded, false, nil
	}
	if strings.Contains(fallback, "${") {
		return expanded, false, fault.New(fault.BadRequest,
			"the default of ${%s:-…} holds a variable, which is not expanded there: write plain text",
			name)
	}
	value, set := v.lookup(name)
	switch {
	case set:
		return variable{name: name, value: value, fallback: fallback}, true, nil
	case hasFallback:
		return variable{name: name, value: fallback, fallback: fallback}, true, nil
	}
	unset := &unsetError{name}
	f = fault.New(fault.BadRequest, "%v: set it, or write ${%s:-default}", unset, fault.Clip(name, 60))
	f.Err = unset
	return expanded, false, f
}
