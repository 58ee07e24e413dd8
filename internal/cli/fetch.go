package cli

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/steps"
)

func newFetchCommand(c *cli) *cobra.Command {
	var f answerFlags
	var to string
	cmd := &cobra.Command{
		Use:   "fetch TOKEN",
		Short: "Fetch more of a large result; nothing runs again",
		Args:  cobra.MatchAll(requireArg("a continuation token"), cobra.MaximumNArgs(1)),
	}
	f.add(cmd, c.streams)
	cmd.Flags().Var((*outPath)(&to), "out",
		"of an image or another block: write its bytes to a `file`, or to one in a folder (a path with / at its end)")
	fields := pflag.NewFlagSet("", pflag.ContinueOnError)
	fields.String("mode", "", "summary, paginated, filtered, query or full")
	fields.Int("page", 1, "paginated: the page, from 1")
	fields.Int("page-size", 0, "paginated: items or lines of a page (default: results.pageSize)")
	fields.StringSlice("filter-keys", nil, "filtered: the `keys` to keep, dotted paths allowed")
	fields.String("query", "", "query: a reference path or an expression over $result")
	cmd.Flags().AddFlagSet(fields)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(args[0], budget.TokenPrefix) {
			return usageErrorf("%s is not a continuation token, which begins with %s: an answer with a large result has one",
				fault.Clip(args[0], 60), budget.TokenPrefix)
		}
		request, err := fetchRequest(args[0], fields)
		if err != nil {
			return err
		}
		a, err := c.open(cmd.Context(), app.Options{NoSources: true})
		if err != nil {
			return err
		}
		defer closeInto(a, &err)
		var refused *chain.Answer
		if bytesOnly := to != "" || c.raw; isBlockToken(args[0]) && bytesOnly {
			if refused, err = c.fetchBlock(cmd.Context(), a, args[0], to); refused == nil {
				return err
			}
		} else if to != "" {
			return usageErrorf("--out is for the bytes of a block, whose token begins with %s", steps.BlockHandle)
		}
		out, err := c.newOutput("")
		if err != nil {
			return err
		}
		expired := false
		err = c.answerOne(override, out, &document{name: "onecall"}, func(caller *chain.Caller) *chain.Answer {
			answer := refused
			if answer == nil {
				answer = a.Run(cmd.Context(), request, caller)
			}
			expired = answer.Error != nil && answer.Error.Code == fault.TokenExpired
			return answer
		})
		if expired && !c.outTerminal { // the answer's advice is for agents; a terminal shows another
			c.noticef("the token has expired: run the chain again, whose answer has a new one")
		}
		return err
	}
	return cmd
}

// fetchRequest returns the request of a fetch. Each given flag is the field of the same name, with _ for -.
func fetchRequest(token string, flags *pflag.FlagSet) (request []byte, err error) {
	fields := []jsonMember{{"continuation_token", jsonText(token)}}
	flags.VisitAll(func(flag *pflag.Flag) {
		var value any = flag.Value.String()
		switch list, isList := flag.Value.(pflag.SliceValue); {
		case !flag.Changed || value == "" || value == "[]":
			return
		case isList:
			value = list.GetSlice()
		case flag.Value.Type() == "int":
			value = json.RawMessage(flag.Value.String())
		}
		encoded, failed := json.Marshal(value)
		if failed != nil {
			err = failed
		}
		fields = append(fields, jsonMember{strings.ReplaceAll(flag.Name, "-", "_"), encoded})
	})
	return appendObject(fields), err
}
