package cli

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
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
			waiting := c.startProgress()
			query := strings.TrimSpace(strings.Join(args, " "))
			list := listTools(cmd.Context(), a, query)
			waiting.stop()
			if len(list.Functions) == 0 {
				c.noteNone(query, a.Nearest(query))
			}
			for _, f := range a.UnusedSettings() {
				c.warn(f)
			}
			if asJSON {
				if err := c.writeValue(list); err != nil || query != "" || !list.allDown() {
					return err
				}
				return answered(fault.Unavailable.Exit())
			}
			if query != "" {
				c.noteAbsent(list.Sources)
				list.Sources = nil
			}
			if c.outTerminal && (len(list.Functions) == 0 || list.Functions[0].entry == nil) {
				err = c.showTable(list)
			} else {
				err = c.writeTable(list)
			}
			if err == nil && query == "" && list.allDown() {
				err = answered(fault.Unavailable.Exit())
			}
			return err
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

// allDown reports whether there are sources beside the embedded ones, and none of them is there.
func (l *toolList) allDown() bool {
	others := slices.DeleteFunc(slices.Clone(l.Sources), func(s toolSource) bool { return s.State == steps.StateReady && slices.Contains(embedded, s.Name) })
	return len(others) > 0 && !slices.ContainsFunc(others, func(s toolSource) bool { return s.Error == "" })
}

// embedded are the sources that are always there.
var embedded = []string{"fs", "http", "expr", "text", steps.ChainSource}

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
			s.note("%s", one.down())
		}
	}
}

// down says why a source is not there.
func (one *toolSource) down() string {
	return fmt.Sprintf("the source %s is %s: %s", fault.Quote(textfile.Printable(one.Name)), one.State, textfile.Printable(one.Error))
}

// showTable shows a person the functions, a line each, cut to the width of the terminal.
func (s *streams) showTable(list *toolList) error {
	var b bytes.Buffer
	for _, one := range list.Sources {
		switch {
		case one.Error != "":
			b.WriteString(one.down() + "\n")
		case !slices.Contains(embedded, one.Name):
			fmt.Fprintf(&b, "the source %s is %s: %d functions\n", fault.Quote(textfile.Printable(one.Name)), one.State, one.Functions)
		}
	}
	if len(list.Functions) == 0 {
		return s.writeText(b.Bytes())
	}
	width, tokens := s.outWidth(), 0
	name := 0
	for i := range list.Functions {
		tokens += list.Functions[i].Tokens
		name = max(name, uniseg.StringWidth(textfile.Printable(list.Functions[i].Name)))
	}
	name = min(name, max(width/2, 12))
	line := func(fn, effect, tokens, text string) {
		start := fmt.Sprintf("%s  %-7s  %6s  ", fitted(fn, name), effect, tokens)
		if room := width - uniseg.StringWidth(start); room > 0 {
			start += cut(text, room)
		}
		b.WriteString(strings.TrimRight(cut(start, width), " ") + "\n")
	}
	line("FUNCTION", "EFFECT", "TOKENS", "WHAT IT DOES")
	for i := range list.Functions {
		fn := &list.Functions[i]
		first := sentence.FindString(fn.Description)
		line(textfile.Printable(fn.Name), fn.Effect, strconv.Itoa(fn.Tokens), textfile.Printable(first))
	}
	fmt.Fprintf(&b, "%d functions, %d tokens; through the tool chain an agent reads less than 600. onecall tools NAME shows one whole.\n", len(list.Functions), tokens)
	return s.writeText(b.Bytes())
}

// sentence is the first sentence of a text, or its first line.
var sentence = regexp.MustCompile(`^(?:[^.\n]|\.[^\s]|\.[ \t]+[^A-Z\s])*`)

// cut is as much of a line as a width has room for.
func cut(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	var b strings.Builder
	used := 1 // the ellipsis
	for g := uniseg.NewGraphemes(text); g.Next(); {
		if used += g.Width(); used > width {
			break
		}
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}

// fitted is a text of exactly this width.
func fitted(text string, width int) string {
	text = cut(text, width)
	return text + strings.Repeat(" ", max(width-uniseg.StringWidth(text), 0))
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
