package cli

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/steps/schema"
)

func newResumeCommand(c *cli) *cobra.Command {
	var f chainFlags
	var assume []string
	cmd := &cobra.Command{
		Use:   "resume RUN [FILE]",
		Short: "Go on with a run that failed; what it has done is not done again",
		Long: "Go on with a run that failed, was interrupted or waits for approval. Calls that it made are taken from the journal. With\n" +
			"FILE, a chain, each field of it takes the place of the run's; so does --input, and --set sets single values over it.",
		Args: cobra.MatchAll(needs("the id of a run: onecall runs lists them"), cobra.MaximumNArgs(2)),
	}
	f.add(cmd, c)
	assumeFlag(cmd, &assume)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		override.Operator = true
		var fields []argument
		if override.Input != nil {
			fields = append(fields, argument{"input", override.Input})
			override.Input = nil // it is a field as those of FILE, and set over nothing
		}
		if fields, err = withAssumed(fields, assume); err != nil {
			return err
		}
		return c.withJournal(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
			return c.goOn(cmd.Context(), a, args, fields, override, f.out)
		})
	}
	return cmd
}

func assumeFlag(cmd *cobra.Command, list *[]string) {
	cmd.Flags().StringArrayVar(list, "assume", nil, "what holds of a call that wrote, `PLACE=applied|not_sent|JSON`: JSON is its result")
}

// withAssumed adds the field assume to those of a request, if the flags say something.
func withAssumed(fields []argument, list []string) ([]argument, error) {
	if len(list) == 0 {
		return fields, nil
	}
	said, err := assumed(list)
	if err != nil {
		return nil, err
	}
	return append(fields, argument{"assume", said}), nil
}

// assumed makes the field assume of what the flags say.
func assumed(list []string) (json.RawMessage, error) {
	var said []argument
	for _, text := range list {
		place, what, ok := strings.Cut(text, "=")
		if !ok || place == "" {
			return nil, usage("--assume %s: write it as PLACE=applied, PLACE=not_sent, or PLACE= and the result as JSON", fault.Clip(text, 100))
		}
		value := jsonText(what)
		if what != string(fault.Applied) && what != string(fault.NotSent) {
			result, err := schema.Compact([]byte(what))
			if err != nil {
				return nil, usage("--assume %s: what holds is applied, not_sent, or the call's result as JSON", fault.Clip(text, 100))
			}
			value = appendObject([]argument{{"result", result}})
		}
		said = append(said, argument{place, value})
	}
	return appendObject(said), nil
}

// goOn sends a run again, with the fields that were given, and those of a chain in a file. The answer goes to the file out; "": stdout.
func (c *cli) goOn(ctx context.Context, a *app.App, args []string, fields []argument, override chain.Override, out string) error {
	id, err := found(ctx, a, args[0])
	if err != nil {
		return err
	}
	request := []argument{{"resume", jsonText(id)}}
	var e *chainfile.Entry // of FILE; nil: there is none
	if len(args) > 1 {
		files, err := chainfile.Find(args[1:], c.chainFolders())
		if err != nil {
			return statusOfFiles(err)
		}
		if e, err = files[0].Read(ctx, c.in, a.MaxRequestBytes); err != nil {
			return statusOfFiles(err)
		}
		if len(e.Faults) > 0 || !gjson.ValidBytes(e.Request) {
			return c.refuseFile(ctx, a, e, override)
		}
		gjson.ParseBytes(e.Request).ForEach(func(key, value gjson.Result) bool {
			request = append(request, argument{key.String(), json.RawMessage(value.Raw)})
			return true
		})
	}
	for _, field := range fields { // over those of the file
		for i := range request {
			if request[i].name == field.name {
				request = append(request[:i], request[i+1:]...)
				break
			}
		}
		request = append(request, field)
	}
	to, err := c.newOutput(out)
	if err != nil {
		return err
	}
	defer to.discard()
	if e == nil {
		return c.runOne(ctx, a, appendObject(request), override, to)
	}
	return c.answerOne(override, to, sourceOf(e), func(caller *chain.Caller) *chain.Answer {
		return answerOf(ctx, a, e, appendObject(request), caller)
	})
}

// refuseFile answers what a file that holds no chain is answered.
func (c *cli) refuseFile(ctx context.Context, a *app.App, e *chainfile.Entry, override chain.Override) error {
	out, err := c.newOutput("")
	if err != nil {
		return err
	}
	override.Check = true
	return c.answerOne(override, out, sourceOf(e), func(caller *chain.Caller) *chain.Answer { return answerEntry(ctx, a, e, caller) })
}

func newUndoCommand(c *cli) *cobra.Command {
	var f answerFlags
	var assume []string
	cmd := &cobra.Command{
		Use:   "undo RUN",
		Short: "Take back what a run has written, the last first",
		Args:  cobra.MatchAll(needs("the id of a run: onecall runs lists them"), cobra.MaximumNArgs(1)),
	}
	f.add(cmd, c.streams)
	assumeFlag(cmd, &assume)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		override.Operator = true
		fields := []argument{{"undo", json.RawMessage("true")}}
		if fields, err = withAssumed(fields, assume); err != nil {
			return err
		}
		return c.withJournal(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
			return c.goOn(cmd.Context(), a, args, fields, override, "")
		})
	}
	return cmd
}
