package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// toolList is what tools --json answers.
type toolList struct {
	Sources   []toolSource   `json:"sources"`
	Functions []toolFunction `json:"functions"`
}

type toolSource struct {
	Name      string      `json:"name"`
	State     steps.State `json:"state"`
	Functions int         `json:"functions"`
	Version   string      `json:"version,omitempty"` // name and version, as the source says them
	Names     string      `json:"names,omitempty"`   // how the names of an MCP server's tools are read
	Error     string      `json:"error,omitempty"`   // why it is not ready
}

type toolFunction struct {
	Name        string `json:"name"`
	Source      string `json:"source"`
	Effect      string `json:"effect"`
	Tier        string `json:"tier"`
	Signature   string `json:"signature"`
	Tokens      int    `json:"tokens"` // of signature and description
	Description string `json:"description"`

	entry *steps.Entry // if it was asked for by its name
}

func newToolsCommand(c *cli) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tools [QUERY]",
		Short: "Show the functions, their signatures and what they cost in tokens",
		Long: "Show the functions that QUERY finds, best first: by words of what they do, or by the name of a source. Without it,\n" +
			"all. The name of a function shows that one, with all that it takes and gives. It waits until each source has\n" +
			"started, or has failed to.",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			a, err := c.open(cmd.Context(), app.Options{List: true})
			if err != nil {
				return err
			}
			defer closeInto(a, &err)
			query := strings.TrimSpace(strings.Join(args, " "))
			list := listTools(cmd.Context(), a, query)
			if len(list.Functions) == 0 {
				c.noteNone(query, a.Nearest(query))
			}
			for _, f := range a.UnusedSettings() {
				c.warn(f)
			}
			if asJSON {
				return c.writeValue(list)
			}
			if query != "" {
				c.noteAbsent(list.Sources)
				list.Sources = nil
			}
			return c.writeTable(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer JSON")
	return cmd
}

// listTools lists the functions that a query finds, best first, and every source.
func listTools(ctx context.Context, a *app.App, query string) *toolList {
	list := &toolList{Sources: []toolSource{}, Functions: []toolFunction{}}
	matches, named := a.Find(ctx, query)
	for _, info := range a.Catalog.Sources() {
		one := toolSource{Name: info.Name, State: info.State, Version: info.Version, Names: info.Names, Functions: len(info.Functions)}
		if info.Error != nil {
			one.Error = info.Error.Message
		}
		list.Sources = append(list.Sources, one)
	}
	for _, m := range matches {
		spec, signature := m.Entry.Spec(), m.Entry.Signature()
		one := toolFunction{
			Name: spec.Name, Source: m.Source, Effect: spec.Effect.String(), Tier: spec.MinimumTier().String(),
			Signature: signature, Description: spec.Description,
			Tokens: a.Counter.Count([]byte(signature+"\n"+spec.Description), -1),
		}
		if named {
			one.entry = m.Entry
		}
		list.Functions = append(list.Functions, one)
	}
	return list
}

func (s *streams) noteNone(query string, near []string) {
	meant := ""
	if len(near) > 0 {
		meant = ": did you mean " + strings.Join(near, ", ") + "?"
	}
	s.note("no function matches %q%s", query, meant)
}

// noteAbsent names the sources that could not be searched.
func (s *streams) noteAbsent(sources []toolSource) {
	for _, one := range sources {
		if one.Error != "" {
			s.note("the source %s is %s: %s", textfile.Printable(one.Name), one.State, textfile.Printable(one.Error))
		}
	}
}

func (s *streams) writeTable(list *toolList) error {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(list.Sources) > 0 {
		fmt.Fprintln(table, "SOURCE\tSTATE\tFUNCTIONS")
	}
	for _, s := range list.Sources {
		fmt.Fprintf(table, "%s\t%s\t%d\n", textfile.Printable(s.Name), s.State, s.Functions)
		if s.Error != "" {
			fmt.Fprintf(table, "\t%s\n", textfile.Printable(s.Error))
		}
		if s.Names != "" && s.Names != "whole" {
			fmt.Fprintf(table, "\tnames: %s\n", s.Names)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(list.Functions) > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(table, "TOKENS\tEFFECT\tFUNCTION")
	}
	for _, fn := range list.Functions {
		fmt.Fprintf(table, "%d\t%s\t%s\n\t\t%s\n", fn.Tokens, fn.Effect, textfile.Printable(fn.Signature), textfile.Printable(fn.Description))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, fn := range list.Functions {
		if fn.entry != nil {
			writeOutlines(&b, fn.entry)
		}
	}
	return s.writeText(b.Bytes())
}

// writeOutlines writes a function's arguments and its result, if they are known.
func writeOutlines(b *bytes.Buffer, fn *steps.Entry) {
	write := func(what string, form []byte) {
		fmt.Fprintf(b, "\n%s: ", what)
		for line := range strings.Lines(schema.Outline(form)) {
			fmt.Fprintln(b, textfile.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	if input := fn.Spec().Input; len(input) > 0 {
		write("arguments", input)
	}
	if output := fn.Spec().Output; len(output) > 0 {
		write("result", output)
	} else if seen := fn.Seen(); seen != nil {
		write("seen", seen.Schema)
	}
}

// writeValue answers a value as JSON.
func (s *streams) writeValue(value any) error {
	encoded, err := rawjson.Marshal(value)
	if err != nil {
		return err
	}
	return s.writeJSON(encoded)
}
