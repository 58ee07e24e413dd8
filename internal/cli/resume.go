package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/textfile"
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
	f.add(cmd)
	cmd.Flags().StringArrayVar(&assume, "assume", nil, "what holds of a call that wrote, `PLACE=applied|not_sent|JSON`: JSON is its result")
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
		if len(assume) > 0 {
			said, err := assumed(assume)
			if err != nil {
				return err
			}
			fields = append(fields, argument{"assume", said})
		}
		return c.withJournal(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
			return c.goOn(cmd.Context(), a, args, fields, override, f.out)
		})
	}
	return cmd
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
	if len(args) > 1 {
		files, err := chainfile.Find(args[1:], c.chainFolders())
		if err != nil {
			return statusOfFiles(err)
		}
		e, err := files[0].Read(ctx, c.in, a.MaxRequestBytes)
		if err != nil {
			return statusOfFiles(err)
		}
		if len(e.Faults) > 0 {
			c.showFaults(&source{name: e.File.Name, text: e.Written}, e.Faults)
			return answered(e.Faults[0].Code.Exit())
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
	return c.runOne(ctx, a, appendObject(request), override, to)
}

func newUndoCommand(c *cli) *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   "undo RUN",
		Short: "Take back what a run has written, the last first",
		Args:  cobra.MatchAll(needs("the id of a run: onecall runs lists them"), cobra.MaximumNArgs(1)),
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		override.Operator = true
		return c.withJournal(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
			return c.goOn(cmd.Context(), a, args, []argument{{"undo", json.RawMessage("true")}}, override, "")
		})
	}
	return cmd
}

func newApproveCommand(c *cli) *cobra.Command {
	var deny, show bool
	var digest string
	cmd := &cobra.Command{
		Use:   "approve RUN",
		Short: "Approve the calls that a run waits with; onecall resume makes them",
		Long: "Approve the calls that a run waits with, each of which may be made once. At a terminal it asks first. They are written as\n" +
			"JSON, as they will be sent.",
		Args: cobra.MatchAll(needs("the id of a run: onecall runs lists them"), cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
				id, err := found(cmd.Context(), a, args[0])
				if err != nil {
					return err
				}
				calls, err := chain.Waiting(cmd.Context(), a.Journal, id)
				if digest == "" && !show && err == nil { // between the question and the answer others may come to wait
					if digest = chain.DigestOf(calls); c.inTerminal && c.errTerminal && !c.confirmed(calls, deny) {
						return answered(exitFailed)
					}
				}
				switch {
				case err != nil || show:
				case deny:
					calls, err = chain.Deny(cmd.Context(), a.Journal, id, digest)
				default:
					calls, err = chain.Approve(cmd.Context(), a.Journal, id, digest)
				}
				switch {
				case journal.IsBusy(err):
					return met{fault.New(fault.Busy, "the run goes on: ask again when it has ended")}
				case err != nil:
					return err
				}
				answer := []json.RawMessage{}
				for _, call := range calls {
					answer = append(answer, json.RawMessage(call.Raw))
				}
				told := map[string]any{"run": id, "calls": answer, "digest": chain.DigestOf(calls)}
				if !show {
					told["approved"] = !deny
				}
				if !show && !deny {
					c.note("onecall resume %s makes them", id)
				}
				return c.writeValue(told)
			})
		},
	}
	cmd.Flags().BoolVar(&deny, "deny", false, "refuse them")
	cmd.Flags().BoolVar(&show, "show", false, "only show them")
	cmd.Flags().StringVar(&digest, "digest", "", "the `digest` that --show gave with the calls: where others wait by now, nothing is approved")
	cmd.MarkFlagsMutuallyExclusive("deny", "show")
	return cmd
}

// confirmed asks at the terminal.
func (c *cli) confirmed(calls []gjson.Result, deny bool) bool {
	for _, call := range calls {
		c.note("%s", textfile.Printable(call.Raw))
	}
	what := "Approve"
	if deny {
		what = "Refuse"
	}
	fmt.Fprintf(c.err, "%s these %d calls? [y/N] ", what, len(calls))
	line, _ := bufio.NewReader(c.in).ReadString('\n')
	return strings.EqualFold(strings.TrimSpace(line), "y")
}
