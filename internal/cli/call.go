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
	var object string
	var verify bool
	cmd := &cobra.Command{
		Use:   "call FN [key=value]...",
		Short: "Call one function",
		Long: "Call one function. A value is JSON if it parses as JSON, else text; where the function declares a string it is\n" +
			"always text. Nothing in a value is read as a reference. FN --help shows what a function takes and gives.",
		Args: needs("a function's name: onecall tools lists them"),
	}
	standard := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.Flags().NArg() > 0 {
			c.unhelped = c.describe(cmd.Context(), cmd.Flags().Arg(0))
			return
		}
		standard(cmd, args)
	})
	f.add(cmd, c.streams)
	cmd.Flags().BoolVar(&verify, "verify", false, "the whole result of a write, never its lean form")
	cmd.Flags().StringVar(&object, "args", "", "the arguments: a `JSON` object, or @FILE; key=value is put over it")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		misused := false
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		var given []byte
		if cmd.Flags().Changed("args") {
			if given, err = jsonObject("--args", object); err != nil {
				return err
			}
		}
		a, err := c.open(cmd.Context(), app.Options{Calls: true})
		if err != nil {
			return err
		}
		defer closeInto(a, &err)
		waiting := c.startProgress()
		made, err := argumentsOf(cmd.Context(), a, args[0], given, args[1:])
		waiting.stop()
		if err != nil {
			return err
		}
		out, err := c.newOutput("")
		if err != nil {
			return err
		}
		err = c.answerOne(override, out, &source{name: "onecall"}, func(caller *chain.Caller) *chain.Answer {
			answer := a.Engine.Call(cmd.Context(), &chain.Call{Function: args[0], Args: made, Verify: verify}, caller)
			misused = answer.Error != nil && answer.Error.Code == fault.BadArguments
			return answer
		})
		if fn, unknown := a.Catalog.Registry().Resolve(args[0]); misused && unknown == nil && c.errTerminal {
			c.note("usage: onecall call %s", callUsage(fn))
		}
		return err
	}
	return cmd
}

// describe shows a function with its arguments and its result.
func (c *cli) describe(ctx context.Context, name string) (err error) {
	a, err := c.open(ctx, app.Options{})
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	waiting := c.startProgress()
	fn, err := steps.Await(ctx, a.Catalog, func(now *steps.Registry) bool { return now.Has(name) }).Resolve(name)
	waiting.stop()
	if err != nil {
		return met{err}
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, textfile.Printable(fn.Signature()))
	if text := fn.Spec().Description; text != "" {
		fmt.Fprintf(&b, "\n%s\n", textfile.Printable(text))
	}
	writeOutlines(&b, fn)
	return c.writeText(b.Bytes())
}

// callUsage is how a function is called, its required arguments first.
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

// argument is one argument of a call: a name and JSON.
type argument struct {
	name  string
	value json.RawMessage
}

// argumentsOf puts key=value over the given arguments of a function.
func argumentsOf(ctx context.Context, a *app.App, name string, given []byte, settings []string) ([]byte, error) {
	var list []argument
	gjson.ParseBytes(given).ForEach(func(key, value gjson.Result) bool {
		list = append(list, argument{key.String(), json.RawMessage(value.Raw)})
		return true
	})
	var input []byte // nil for an unknown function, which the engine reports
	functions := steps.Await(ctx, a.Catalog, func(now *steps.Registry) bool { return now.Has(name) })
	if fn, err := functions.Resolve(name); err == nil {
		input = fn.Spec().Input
	}
	for _, text := range settings {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, usage("%s is no argument: write it as key=value", fault.Clip(text, 100))
		}
		one := argument{key, argumentValue(value, typeOf(input, key))}
		if i := slices.IndexFunc(list, func(other argument) bool { return other.name == key }); i >= 0 {
			list[i] = one
		} else {
			list = append(list, one)
		}
	}
	return appendObject(list), nil
}

// typeOf returns the type that an input schema declares for a property: "string" if it accepts strings only.
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

// argumentValue reads an argument's text as JSON if it is JSON, unless a string is declared.
func argumentValue(text, declared string) json.RawMessage {
	if declared != "string" {
		if compact, err := schema.Compact([]byte(text)); err == nil {
			return compact
		}
	}
	return jsonText(text)
}

// jsonText is a text as a JSON string; bytes that are not UTF-8 become U+FFFD.
func jsonText(text string) json.RawMessage {
	quoted, _ := json.Marshal(text) // of a string: never fails
	return quoted
}

func appendObject(list []argument) []byte {
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
