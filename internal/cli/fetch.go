package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/app"
)

// fetchRequest is the request that the flags of fetch make: only what was given is sent.
type fetchRequest struct {
	Token      string   `json:"continuation_token"`
	Mode       string   `json:"mode,omitempty"`
	Page       *int     `json:"page,omitempty"`
	PageSize   *int     `json:"page_size,omitempty"`
	FilterKeys []string `json:"filter_keys,omitempty"`
	Query      string   `json:"query,omitempty"`
}

func newFetchCommand(c *cli) *cobra.Command {
	var f answerFlags
	var r fetchRequest
	var page, pageSize int
	cmd := &cobra.Command{
		Use:   "fetch TOKEN",
		Short: "Fetch more of a large result; nothing runs again",
		Args:  cobra.MatchAll(needs("a continuation token"), cobra.MaximumNArgs(1)),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&r.Mode, "mode", "", "summary, paginated, filtered, query or full")
	flags.IntVar(&page, "page", 1, "paginated: the page, from 1")
	flags.IntVar(&pageSize, "page-size", 0, "paginated: items or lines of a page (default: results.pageSize)")
	flags.StringSliceVar(&r.FilterKeys, "filter-keys", nil, "filtered: the `keys` to keep, dotted paths allowed")
	flags.StringVar(&r.Query, "query", "", "query: a reference path or an expression over $result")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		override, err := f.override(cmd)
		if err != nil {
			return err
		}
		r.Token = args[0]
		if cmd.Flags().Changed("page") {
			r.Page = &page
		}
		if cmd.Flags().Changed("page-size") {
			r.PageSize = &pageSize
		}
		request, err := json.Marshal(r)
		if err != nil {
			return err
		}
		a, err := c.open(cmd.Context(), app.Options{NoSources: true})
		if err != nil {
			return err
		}
		defer closeInto(a, &err)
		out, err := c.newOutput("")
		if err != nil {
			return err
		}
		return c.runOne(cmd.Context(), a, request, override, out)
	}
	return cmd
}
