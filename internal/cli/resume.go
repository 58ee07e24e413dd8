package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/steps/schema"
)

func newResumeCommand(c *cli) *cobra.Command {
	var f chainFlags
	var assume []string
	cmd := &cobra.Command{
		Use:   "resume RUN [FILE]",
		Short: "Continue a run that failed; nothing that it did is done again",
		Long: "Continue a run that failed, was interrupted or waits for approval. The calls that it made are taken from the journal. The\n" +
			"fields of a chain in FILE replace those of the run; so does --input, and --set sets single values over it.",
	}
	f.add(cmd, c)
	assumeFlag(cmd, &assume)
	nameOf := runNameFlag(cmd, 0, 1, needsRun)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		override.Operator = true
		var fields []jsonMember
		if override.Input != nil {
			fields = append(fields, jsonMember{"input", override.Input})
			override.Input = nil // --input replaces the whole input of the run, as the input in FILE does
		}
		if fields, err = addAssumed(fields, assume); err != nil {
			return err
		}
		name, file := nameOf(args)
		if durable.IsID(name.text) {
			if err := onlyBatch(cmd, args); err != nil {
				return err
			}
			return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
				return c.resumeBatch(cmd.Context(), a, name.text, f.out)
			})
		}
		return c.withJournal(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
			return c.continueRun(cmd.Context(), a, name, file, fields, override, f.out)
		})
	}
	c.engineFlag(cmd)
	return cmd
}

// onlyBatch refuses arguments and flags that are for a single run: the chains of a batch continue as they are.
func onlyBatch(cmd *cobra.Command, args []string) (err error) {
	if len(args) > 1 {
		return usageErrorf("a batch is resumed with its own chains: leave out %s, or name one of its runs", fault.Clip(args[1], 60))
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "out" && f.Name != "engine" && err == nil {
			err = usageErrorf("--%s is for a single run: onecall runs --parent %s --status failed lists those of this batch", f.Name, args[0])
		}
	})
	return err
}

func assumeFlag(cmd *cobra.Command, list *[]string) {
	cmd.Flags().StringArrayVar(list, "assume", nil, "the outcome of a call that wrote, `PLACE=applied|not_sent|JSON`: JSON is its result")
}

// addAssumed adds the field assume to a request if there are --assume flags.
func addAssumed(fields []jsonMember, list []string) ([]jsonMember, error) {
	if len(list) == 0 {
		return fields, nil
	}
	object, err := assumeField(list)
	if err != nil {
		return nil, err
	}
	return append(fields, jsonMember{"assume", object}), nil
}

// assumeField returns the field assume that the --assume flags describe.
func assumeField(list []string) (json.RawMessage, error) {
	var outcomes []jsonMember
	for _, text := range list {
		position, what, ok := strings.Cut(text, "=")
		if !ok || position == "" {
			return nil, usageErrorf("--assume %s: write it as PLACE=applied, PLACE=not_sent, or PLACE= and the result as JSON",
				fault.Clip(text, 100))
		}
		value := jsonText(what)
		if what != string(fault.Applied) && what != string(fault.NotSent) {
			result, err := schema.Compact([]byte(what))
			if err != nil {
				return nil, usageErrorf("--assume %s: the outcome must be applied, not_sent, or the call's result as JSON", fault.Clip(text, 100))
			}
			value = appendObject([]jsonMember{{"result", result}})
		}
		outcomes = append(outcomes, jsonMember{position, value})
	}
	return appendObject(outcomes), nil
}

// continueRun resumes a run with more fields: those of the chain in file, which has one name or none, then fields, which replace those of
// the file. The answer goes to the file out, or to stdout if out is "".
func (c *cli) continueRun(ctx context.Context, a *app.App, name runName, file []string, fields []jsonMember, override chain.Override,
	out string) error {
	id, err := name.find(ctx, c, a)
	if err != nil {
		return err
	}
	if past, err := a.Journal.Read(ctx, id, nil); err == nil && past.Row.Batch && durable.IsID(past.Row.CallersKey()) {
		return opErrorf("this run is a batch: onecall-temporal resume %s continues it", past.Row.CallersKey())
	}
	to, err := c.newOutput(out)
	if err != nil {
		return err
	}
	defer to.discard()
	request := []jsonMember{{"resume", jsonText(id)}}
	fromFlags := map[string]string{"/resume": "onecall"} // what set each field, by JSON pointer
	var e *chainfile.Entry                               // the chain in FILE; nil: none is given
	if len(file) > 0 {
		files, err := chainfile.Find(file, c.chainFolders())
		if err != nil {
			return exitErrorOfFiles(err)
		}
		if e, err = files[0].Read(ctx, c.in, a.MaxRequestBytes); err != nil {
			return exitErrorOfFiles(err)
		}
		if len(e.Faults) > 0 || !gjson.ValidBytes(e.Request) {
			return c.refuseFile(ctx, a, e, override, to)
		}
		gjson.ParseBytes(e.Request).ForEach(func(key, value gjson.Result) bool {
			request = append(request, jsonMember{key.String(), json.RawMessage(value.Raw)})
			return true
		})
	}
	for _, field := range fields {
		for i := range request {
			if request[i].name == field.name {
				request = append(request[:i], request[i+1:]...)
				break
			}
		}
		request = append(request, field)
		fromFlags["/"+field.name] = "--" + field.name
	}
	if e == nil {
		return c.runRequest(ctx, a, appendObject(request), override, to)
	}
	doc := documentOf(e)
	doc.fromFlags = fromFlags
	return c.answerOne(override, to, doc, func(caller *chain.Caller) *chain.Answer {
		return answerOf(ctx, a, e, appendObject(request), caller)
	})
}

// refuseFile answers with the faults of a file that holds no chain.
func (c *cli) refuseFile(ctx context.Context, a *app.App, e *chainfile.Entry, override chain.Override, out *output) error {
	override.Check = true
	return c.answerOne(override, out, documentOf(e), func(caller *chain.Caller) *chain.Answer { return answerEntry(ctx, a, e, caller) })
}

func newUndoCommand(c *cli) *cobra.Command {
	var f answerFlags
	var assume []string
	cmd := &cobra.Command{
		Use:   "undo RUN",
		Short: "Undo what a run wrote, the last write first",
	}
	f.add(cmd, c.streams)
	assumeFlag(cmd, &assume)
	nameOf := runNameFlag(cmd, 0, 0, needsRun)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		override.Operator = true
		fields := []jsonMember{{"undo", json.RawMessage("true")}}
		if fields, err = addAssumed(fields, assume); err != nil {
			return err
		}
		name, _ := nameOf(args)
		return c.withJournal(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
			err := c.continueRun(cmd.Context(), a, name, nil, fields, override, "")
			if errors.Is(err, exitError(fault.Compile.Exit())) { // nothing was compiled: a call that stays has no undo, or its undo is not there
				return exitError(exitFailed)
			}
			return err
		})
	}
	return cmd
}
