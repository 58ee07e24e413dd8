package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// variables fills in what stands between ${ and } in the strings of a configuration:
//
//	${NAME}, ${env:NAME}   a variable of the environment, which must be set; an empty one is
//	${NAME:-text}          the same, or the text where it is not set
//	${workspaceFolder}     the folder of the configuration's file
//	${userHome}            the user's home folder
//	${pathSeparator}, ${/} the separator of paths
//
// What clients have and onecall has not (${input:…}, ${command:…}, ${config:…}, ${file:…}) is a fault. Anything else
// between ${ and } is text, references of chains among it. As in the clients, nothing quotes a ${NAME}, and $NAME is text.
type variables struct {
	lookup func(string) (string, bool)
	folder string // of the configuration
}

// filled is a string with its variables filled in.
type filled struct {
	text   string
	plain  string     // the text with nothing in the place of the variables
	values []variable // in their order
}

// variable is one that was filled in; fallback is its default.
type variable struct{ name, value, fallback string }

// errUnset is the cause of the fault for a variable that is not set.
var errUnset = errors.New("not set")

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	foreignForm  = regexp.MustCompile(`^(input|command|config|file):`)
)

// fill fills in the variables of a text. The fault names what is wrong, and holds no value.
func (v *variables) fill(text string) (filled, *fault.Error) {
	var out, plain strings.Builder
	var values []variable
	for {
		before, rest, found := strings.Cut(text, "${")
		out.WriteString(before)
		plain.WriteString(before)
		if !found {
			break
		}
		inside, after, closed := strings.Cut(rest, "}")
		one, is, f := v.value(inside)
		switch {
		case f != nil:
			return filled{}, f
		case !closed || !is:
			out.WriteString("${")
			plain.WriteString("${")
			text = rest
			continue
		}
		out.WriteString(one.value)
		values = append(values, one)
		text = after
	}
	return filled{out.String(), plain.String(), values}, nil
}

// value reads what stands between ${ and }; is false where it is text.
func (v *variables) value(inside string) (one variable, is bool, f *fault.Error) {
	switch inside {
	case "workspaceFolder":
		folder, err := filepath.Abs(v.folder)
		if err != nil {
			return one, false, fault.New(fault.BadRequest, "${workspaceFolder}: the folder of the configuration is not known: %v", textfile.Cause(err))
		}
		return variable{name: inside, value: folder}, true, nil
	case "userHome":
		home, err := os.UserHomeDir()
		if err != nil {
			return one, false, fault.New(fault.BadRequest, "${userHome}: the user has no home folder: write the path")
		}
		return variable{name: inside, value: home}, true, nil
	case "pathSeparator", "/":
		return variable{name: inside, value: string(filepath.Separator)}, true, nil
	}
	if form := foreignForm.FindString(inside); form != "" {
		return one, false, fault.New(fault.NotSupported,
			"${%s…} is filled in by the program that this was written for, not by onecall: set a variable of the environment and write ${NAME}", form)
	}
	name, fallback, hasFallback := strings.Cut(inside, ":-")
	name, prefixed := strings.CutPrefix(name, "env:")
	if !variableName.MatchString(name) && (!prefixed || name == "") {
		return one, false, nil
	}
	if strings.Contains(fallback, "${") {
		return one, false, fault.New(fault.BadRequest, "the default of ${%s:-…} holds a variable, which is not filled in there: write a text", name)
	}
	value, set := v.lookup(name)
	switch {
	case set:
		return variable{name, value, fallback}, true, nil
	case hasFallback:
		return variable{name, fallback, fallback}, true, nil
	}
	f = fault.New(fault.BadRequest, "the environment variable %s is not set: set it, or write ${%s:-default}", fault.Clip(name, 60), fault.Clip(name, 60))
	f.Err = errUnset
	return one, false, f
}
