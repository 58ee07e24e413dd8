package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

func newCallCommand(c *cli) *cobra.Command {
	var f answerFlags
	var argsFlag string
	var verify bool
	cmd := &cobra.Command{
		Use:   "call FN [key=value]...",
		Short: "Call one function",
		Long: "Call one function. A value is JSON if it parses as JSON, else text; if the function declares a string, it is always\n" +
			"text. References in values are not resolved. FN --help shows the arguments and the result of a function.",
		Args: requireArg("a function's name: onecall tools lists them"),
	}
	standard := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.Flags().NArg() > 0 {
			c.helpError = c.showFunction(cmd.Context(), cmd.Flags().Arg(0))
			return
		}
		standard(cmd, args)
	})
	f.add(cmd, c.streams)
	cmd.Flags().BoolVar(&verify, "verify", false, "the whole result of a write, not its short form")
	cmd.Flags().StringVar(&argsFlag, "args", "", "the arguments: a `JSON` object, or @FILE; key=value sets single ones over it")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		misused := false
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		var argsObject []byte
		if cmd.Flags().Changed("args") {
			if argsObject, err = jsonObject("--args", argsFlag); err != nil {
				return err
			}
		}
		a, err := c.open(cmd.Context(), app.Options{Calls: true})
		if err != nil {
			return err
		}
		defer closeInto(a, &err)
		line := c.startProgress()
		callArgs, hints, err := argumentsObject(cmd.Context(), a, args[0], argsObject, args[1:])
		line.stop()
		if err != nil {
			return err
		}
		out, err := c.newOutput("")
		if err != nil {
			return err
		}
		err = c.answerOne(override, out, &document{name: "onecall"}, func(caller *chain.Caller) *chain.Answer {
			answer := a.Call(cmd.Context(), &chain.Call{Function: args[0], Args: callArgs, Verify: verify}, caller)
			misused = answer.Error != nil && answer.Error.Code == fault.BadArguments
			return answer
		})
		for _, hint := range hints {
			if misused {
				c.noticef("%s", textfile.Printable(hint))
			}
		}
		if fn, unknown := a.Functions().Registry().Resolve(args[0]); misused && unknown == nil && c.errTerminal {
			c.noticef("usage: onecall call %s", callUsage(fn))
		}
		return err
	}
	return cmd
}

// showFunction shows the signature, arguments and result of a function.
func (c *cli) showFunction(ctx context.Context, name string) (err error) {
	a, err := c.open(ctx, app.Options{})
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	line := c.startProgress()
	fn, err := steps.Await(ctx, a.Functions(), func(now *steps.Registry) bool { return now.Has(name) }).Resolve(name)
	line.stop()
	if err != nil {
		return opError{err}
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, textfile.Printable(fn.Signature()))
	if text := fn.Spec().Description; text != "" {
		fmt.Fprintf(&b, "\n%s\n", textfile.Printable(text))
	}
	writeOutlines(&b, fn)
	return c.writeText(b.Bytes())
}

// callUsage returns the usage line of a function, required arguments first.
func callUsage(fn *steps.Entry) string {
	var required, optional []string
	gjson.GetBytes(fn.Spec().Input, "properties").ForEach(func(key, _ gjson.Result) bool {
		if fn.Requires(key.Str) {
			required = append(required, key.Str+"=…")
		} else {
			optional = append(optional, "["+key.Str+"=…]")
		}
		return true
	})
	return textfile.Printable(strings.Join(slices.Concat([]string{fn.Spec().Name}, required, optional), " "))
}

// jsonMember is a member of a JSON object.
type jsonMember struct {
	name  string
	value json.RawMessage
}

// argumentsObject returns the arguments of a function: the members of object, with each key=value of settings set over them, and how
// to write lists and objects that were given as text.
func argumentsObject(ctx context.Context, a *app.App, name string, object []byte, settings []string) ([]byte, []string, error) {
	var list []jsonMember
	var hints []string
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		list = append(list, jsonMember{key.String(), json.RawMessage(value.Raw)})
		return true
	})
	var input []byte // nil for an unknown function, which the engine reports as a fault
	functions := steps.Await(ctx, a.Functions(), func(now *steps.Registry) bool { return now.Has(name) })
	if fn, err := functions.Resolve(name); err == nil {
		input = fn.Spec().Input
	}
	for _, text := range settings {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, nil, usageErrorf("%s is not an argument: write it as key=value", fault.Clip(text, 100))
		}
		declared := typeOf(input, key)
		one := jsonMember{key, argumentValue(value, declared)}
		if hint := jsonHint(key, value, declared); hint != "" {
			hints = append(hints, hint)
		}
		if i := slices.IndexFunc(list, func(other jsonMember) bool { return other.name == key }); i >= 0 {
			list[i] = one
		} else {
			list = append(list, one)
		}
	}
	return appendObject(list), hints, nil
}

// jsonHint says how to write a list or an object on the command line, if text is not JSON; "": the declared type is another, or text is
// JSON.
func jsonHint(key, text, declared string) string {
	if _, err := schema.Compact([]byte(text)); err == nil {
		return ""
	}
	switch declared {
	case "array":
		return fmt.Sprintf("%s is a list: write it as JSON, %s='[%s]'", key, key, jsonText(text))
	case "object":
		return fmt.Sprintf(`%s is an object: write it as JSON, %s='{"name": %s}'`, key, key, jsonText(text))
	}
	return ""
}

// typeOf returns the type of a property in an input schema; "": the schema does not declare exactly one.
func typeOf(schema []byte, property string) string {
	var declared gjson.Result
	gjson.GetBytes(schema, "properties").ForEach(func(key, value gjson.Result) bool {
		if key.String() == property {
			declared = value.Get("type")
		}
		return !declared.Exists()
	})
	return declared.Str
}

// argumentValue reads text as JSON if it is valid JSON and the declared type is not string; otherwise as a string.
func argumentValue(text, declared string) json.RawMessage {
	if declared != "string" {
		if compact, err := schema.Compact([]byte(text)); err == nil {
			return compact
		}
	}
	return jsonText(text)
}

// jsonText returns text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func jsonText(text string) json.RawMessage {
	quoted, _ := json.Marshal(text) // marshaling a string does not fail
	return quoted
}

func appendObject(list []jsonMember) []byte {
	dst := []byte{'{'}
	for i, one := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, jsonText(one.name)...), ':')
		dst = append(dst, one.value...)
	}
	return append(dst, '}')
}
