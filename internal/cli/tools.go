package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// toolList is the answer of tools --json.
type toolList struct {
	Sources   []toolSource   `json:"sources"`
	Functions []toolFunction `json:"functions"`
}

type toolSource struct {
	Name      string      `json:"name"`
	State     steps.State `json:"state"`
	Functions int         `json:"functions"`
	Version   string      `json:"version,omitempty"` // name and version, as the source reports them
	Names     string      `json:"names,omitempty"`   // how groups and help interpret the names of an MCP server's tools
	Error     string      `json:"error,omitempty"`   // why the source is not ready
}

type toolFunction struct {
	Name        string `json:"name"`
	Source      string `json:"source"`
	Effect      string `json:"effect"`
	Tier        string `json:"tier"`
	Signature   string `json:"signature"`
	Tokens      int    `json:"tokens"` // the tokens of the signature and the description
	Description string `json:"description"`

	Gives json.RawMessage `json:"gives,omitempty"` // with --labels
	Takes json.RawMessage `json:"takes,omitempty"`

	spec  *steps.Spec
	entry *steps.Entry // set if the query is the function's name
}

func newToolsCommand(c *cli) *cobra.Command {
	var asJSON, labels bool
	cmd := &cobra.Command{
		Use:   "tools [QUERY]",
		Short: "Show the functions, their signatures and what they cost in tokens",
		Long: "Show the functions that match QUERY, best first: words of what they do, or the name of a source. Without QUERY, show all.\n" +
			"The name of a function shows that function with its arguments and its result. It waits until each source has started or\n" +
			"failed.",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			a, err := c.open(cmd.Context(), app.Options{List: true})
			if err != nil {
				return err
			}
			defer closeInto(a, &err)
			line := c.startProgress()
			query := strings.TrimSpace(strings.Join(args, " "))
			list := listTools(cmd.Context(), a, query)
			line.stop()
			if labels {
				list.addLabels()
			}
			if len(list.Functions) == 0 {
				c.warnNoMatch(query, a.Nearest(query))
			}
			for _, f := range a.Suspects() {
				c.warn(f)
			}
			if asJSON {
				return errors.Join(c.writeValue(list), list.exitError())
			}
			down := list.exitError()
			if query != "" {
				c.warnUnavailable(list.Sources)
				list.Sources = nil
			}
			switch {
			case labels:
				err = c.writeLabels(list)
			case c.outTerminal && (len(list.Functions) == 0 || list.Functions[0].entry == nil):
				err = c.showTable(list)
			default:
				err = c.writeTools(list)
			}
			return errors.Join(err, down)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer JSON")
	cmd.Flags().BoolVar(&labels, "labels", false, "show the labels that results have and the roles of arguments, for flow rules")
	return cmd
}

// listTools returns all sources, and the functions that match a query, best first.
func listTools(ctx context.Context, a *app.App, query string) *toolList {
	list := &toolList{Sources: []toolSource{}, Functions: []toolFunction{}}
	matches, byName := a.Find(ctx, query)
	for _, info := range a.Functions().Sources() {
		source := toolSource{Name: info.Name, State: info.State, Version: info.Version, Names: info.Names, Functions: len(info.Functions)}
		if info.Error != nil {
			source.Error = info.Error.Message
		}
		list.Sources = append(list.Sources, source)
	}
	for _, m := range matches {
		spec, signature := m.Entry.Spec(), m.Entry.Signature()
		function := toolFunction{
			Name: spec.Name, Source: m.Source, Effect: spec.Effect.String(), Tier: spec.MinimumTier().String(),
			Signature: signature, Description: spec.Description,
			Tokens: a.Counter.Count([]byte(signature+"\n"+spec.Description), -1),
		}
		if function.spec = spec; byName {
			function.entry = m.Entry
		}
		list.Functions = append(list.Functions, function)
	}
	return list
}

// addLabels adds the labels and roles of the functions.
func (l *toolList) addLabels() {
	for i := range l.Functions {
		fn := &l.Functions[i]
		fn.Gives, fn.Takes = steps.GivesJSON(fn.spec.Gives), steps.TakesJSON(fn.spec.Takes)
	}
}

// writeLabels writes the functions that have labels or roles, with their effects, which are roles of all arguments.
func (c *cli) writeLabels(list *toolList) error {
	t := &table{columns: []column{{name: "FUNCTION", whole: true}, {name: "EFFECT", style: effectColor}, {name: "GIVES"}, {name: "TAKES"}}}
	for i := range list.Functions {
		if fn := &list.Functions[i]; fn.Gives != nil || fn.Takes != nil {
			t.rows = append(t.rows, row{cells: []string{fn.Name, fn.Effect, string(fn.Gives), string(fn.Takes)}})
		}
	}
	if len(t.rows) == 0 {
		c.noticef("no function has labels or roles: gives and takes of functions set them, or labels of a server")
		return nil
	}
	return c.writeTable(t)
}

// allDown reports whether every source is down, except embedded ones that are ready. It is false if there is no other source.
func (l *toolList) allDown() bool {
	others := slices.DeleteFunc(slices.Clone(l.Sources), func(s toolSource) bool {
		return s.State == steps.StateReady && slices.Contains(config.Embedded, s.Name)
	})
	return len(others) > 0 && !slices.ContainsFunc(others, func(s toolSource) bool { return s.Error == "" || s.State == steps.StateLocked })
}

// exitError returns the error of a list without a source that is available.
func (l *toolList) exitError() error {
	if l.allDown() {
		return exitError(fault.Unavailable.Exit())
	}
	return nil
}

func (s *streams) warnNoMatch(query string, near []string) {
	suggestion := ""
	if len(near) > 0 {
		suggestion = ": did you mean " + strings.Join(near, ", ") + "?"
	}
	s.noticef("no function matches %q%s", query, suggestion)
}

// warnUnavailable names the sources that could not be searched.
func (s *streams) warnUnavailable(sources []toolSource) {
	for _, source := range sources {
		if source.Error != "" {
			s.noticef("%s", source.problem())
		}
	}
}

// problem says why a source is unavailable.
func (s *toolSource) problem() string {
	return fmt.Sprintf("the source %s is %s: %s", fault.Quote(textfile.Printable(s.Name)), s.State, textfile.Printable(s.Error))
}

// showTable shows the functions to a person, one a line, cut to the terminal's width.
func (s *streams) showTable(list *toolList) error {
	var b bytes.Buffer
	for _, source := range list.Sources {
		switch {
		case source.Error != "":
			b.WriteString(source.problem() + "\n")
		case !slices.Contains(config.Embedded, source.Name):
			fmt.Fprintf(&b, "the source %s is %s: %d functions\n", fault.Quote(textfile.Printable(source.Name)), source.State, source.Functions)
		}
	}
	if len(list.Functions) == 0 {
		return s.writeText(b.Bytes())
	}
	width, tokens := s.outWidth(), 0
	nameWidth := 0
	for i := range list.Functions {
		tokens += list.Functions[i].Tokens
		nameWidth = max(nameWidth, uniseg.StringWidth(textfile.Printable(list.Functions[i].Name)))
	}
	nameWidth = min(nameWidth, max(width/2, 12))
	line := func(fn, effect, tokens, text string) {
		if s.isNarrow() {
			fmt.Fprintf(&b, "%s\n  %s %s\n", fn, effect, tokens)
			return
		}
		start := fmt.Sprintf("%s  %-7s  %6s  ", fit(fn, nameWidth), effect, tokens)
		if space := width - uniseg.StringWidth(start); space > 0 {
			start += truncate(text, space)
		}
		start = strings.TrimRight(truncate(start, width), " ")
		if before, after, ok := strings.Cut(start, "  "+effect+" "); ok {
			start = before + "  " + s.paint(effectColor(effect), effect) + " " + after
		}
		b.WriteString(start + "\n")
	}
	line("FUNCTION", "EFFECT", "TOKENS", "WHAT IT DOES")
	for i := range list.Functions {
		fn := &list.Functions[i]
		first := firstSentence.FindString(fn.Description)
		line(textfile.Printable(fn.Name), fn.Effect, strconv.Itoa(fn.Tokens), textfile.Printable(first))
	}
	fmt.Fprintf(&b, "%d functions, %d tokens; with the tool chain, an agent reads fewer than 600. onecall tools NAME shows one in full.\n",
		len(list.Functions), tokens)
	return s.writeText(b.Bytes())
}

// firstSentence matches the first sentence of a text, or its first line.
var firstSentence = regexp.MustCompile(`^(?:[^.\n]|\.[^\s]|\.[ \t]+[^A-Z\s])*`)

// truncate cuts a text to a width in columns, with an ellipsis.
func truncate(text string, width int) string {
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

// fit cuts or pads a text to a width in columns.
func fit(text string, width int) string {
	return pad(truncate(text, width), width)
}

// writeTools writes the sources and the functions in full.
func (c *cli) writeTools(list *toolList) error {
	sources := &table{notesAt: 1, columns: []column{{name: "SOURCE"}, {name: "STATE", style: statusColor}, {name: "FUNCTIONS"}}}
	for _, s := range list.Sources {
		r := row{cells: []string{s.Name, string(s.State), strconv.Itoa(s.Functions)}}
		if s.Error != "" {
			r.notes = append(r.notes, s.Error)
		}
		if c.verbose && s.Names != "" && s.Names != "whole" {
			r.notes = append(r.notes, "names: "+s.Names)
		}
		sources.rows = append(sources.rows, r)
	}
	functions := &table{notesAt: 2, columns: []column{{name: "TOKENS"}, {name: "EFFECT", style: effectColor}, {name: "FUNCTION", whole: true}}}
	for _, fn := range list.Functions {
		cells := []string{strconv.Itoa(fn.Tokens), fn.Effect, fn.Signature}
		functions.rows = append(functions.rows, row{cells: cells, notes: []string{fn.Description}})
	}
	var err error
	if len(sources.rows) > 0 {
		err = errors.Join(c.writeTable(sources), c.writeText([]byte{'\n'}))
	}
	if len(functions.rows) > 0 {
		err = errors.Join(err, c.writeTable(functions))
	}
	var b bytes.Buffer
	for _, fn := range list.Functions {
		if fn.entry != nil {
			writeOutlines(&b, fn.entry)
		}
	}
	return errors.Join(err, c.writeText(b.Bytes()))
}

// writeOutlines writes the arguments and the result of a function, if they are known. "seen" is the shape of past results.
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
	} else if shape := fn.ResultShape(); shape != nil {
		write("seen", shape.Schema)
	}
}

// writeValue writes a value as JSON.
func (s *streams) writeValue(value any) error {
	encoded, err := rawjson.Marshal(value)
	if err != nil {
		return err
	}
	return s.writeJSON(encoded)
}
