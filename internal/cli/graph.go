package cli

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/draw"
)

// graphFormats are the formats of a graph, by the suffix of a file that has it.
var graphFormats = map[string]string{".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot"}

func newGraphCommand(c *cli) *cobra.Command {
	var out, format string
	cmd := &cobra.Command{
		Use:   "graph FILE|RUN",
		Short: "Draw a chain, or a run, as a graph of its steps",
		Long: "Draw a chain (a file, the name of a saved one, or - for the standard input), or a run: its id or the beginning of it, or\n" +
			"--last. The columns are the waves of steps that may run side by side. A run's steps show what became of them. Nothing is\n" +
			"run. If a function of a run is not there any more, its columns are the waves in which its calls were made.",
		ValidArgsFunction: c.completeChains,
	}
	nameOf := runNameFlag(cmd, 0, 0, "a chain, or a run, which onecall runs lists, or --last for the newest run")
	cmd.Flags().Var((*outPath)(&out), "out", "write the picture to a `file`, which appears when it is complete")
	cmd.Flags().StringVar(&format, "format", "", "svg, mermaid or dot (default: by the name of the file, else svg)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format := cmp.Or(format, graphFormats[strings.ToLower(filepath.Ext(out))], "svg")
		switch {
		case !slices.Contains([]string{"svg", "mermaid", "dot"}, format):
			return usageErrorf("--format is %q: use svg, mermaid or dot", fault.Clip(format, 60))
		case out == "" && c.outTerminal && format == "svg" && !cmd.Flags().Changed("format"):
			return usageErrorf("a terminal shows no picture: name a file, as in --out chain.svg, or use --format mermaid")
		case isFolder(out):
			return usageErrorf("--out %s is a folder: name a file", out)
		}
		name, _ := nameOf(args)
		name.any = true
		return c.withApp(cmd.Context(), app.Options{Calls: true}, func(a *app.App) error {
			g, err := c.graphOf(cmd.Context(), a, name)
			if err != nil {
				return err
			}
			return c.writeBytes(out, drawGraph(g, format))
		})
	}
	return cmd
}

func drawGraph(g *draw.Graph, format string) []byte {
	switch format {
	case "mermaid":
		return g.Mermaid()
	case "dot":
		return g.DOT()
	}
	return draw.File(g.SVG())
}

// graphOf returns the graph of a chain or, if no chain has the name, of a run.
func (c *cli) graphOf(ctx context.Context, a *app.App, name runName) (*draw.Graph, error) {
	if !name.last {
		files, notFile := chainfile.Find([]string{name.text}, c.chainFolders())
		if notFile == nil {
			return c.graphOfFile(ctx, a, &files[0])
		}
		if strings.ContainsAny(name.text, `./\`) {
			return nil, exitErrorOfFiles(notFile)
		}
	}
	if a.Journal == nil {
		return nil, errNoJournal
	}
	id, err := name.find(ctx, c, a)
	if errors.Is(err, journal.ErrNotFound) && !strings.HasPrefix(name.text, journal.IDPrefix) {
		return nil, opErrorf("there is neither a chain nor a run %s: onecall list lists saved chains, onecall runs the runs that are kept",
			fault.Clip(name.text, 60))
	}
	if err != nil {
		return nil, err
	}
	return c.graphOfRun(ctx, a, id)
}

func (c *cli) graphOfFile(ctx context.Context, a *app.App, file *chainfile.File) (*draw.Graph, error) {
	if file.Lines {
		return nil, usageErrorf("%s has a chain in each line: graph draws one, from a file of its own or the standard input", file.Name)
	}
	e, err := file.Read(ctx, c.in, a.MaxRequestBytes)
	if err != nil {
		return nil, exitErrorOfFiles(err)
	}
	p := c.startProgress()
	e.Answer = answerEntry(ctx, a, e, &chain.Caller{Override: chain.Override{Check: true, DryRun: true}})
	p.stop()
	if !e.Answer.OK {
		c.showCheckResult(e)
		return nil, exitErrorOf(e.Answer)
	}
	if e.Answer.Plan == nil {
		return nil, opErrorf("%s has no steps to draw", file.Name)
	}
	return draw.OfPlan(e.Label(), e.Answer.Plan), nil
}

func (c *cli) graphOfRun(ctx context.Context, a *app.App, id string) (*draw.Graph, error) {
	t, err := c.readTimeline(ctx, a, id)
	if err != nil {
		return nil, err
	}
	past, err := a.Journal.Read(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	if len(past.Chain) == 0 {
		return nil, opErrorf("run %s has no chain of its own: onecall runs --parent %s lists its parts", id, id)
	}
	var waiting []string
	if t.Status == journal.Waiting {
		calls, _ := chain.Waiting(ctx, a.Journal, id) // a run that pauses waits for no call
		for _, call := range calls {
			waiting = append(waiting, call.Get("at").Str)
		}
	}
	p := c.startProgress()
	plan, why := draw.PlanOf(ctx, a.Run, past.Chain, chain.Caller{})
	p.stop()
	if why != nil {
		c.noticef("the chain of the run does not compile any more, so the columns are the waves of its calls: %s", why.Error())
	}
	title := strings.TrimSpace(t.Chain+" "+t.ID) + ": " + runStatus(t.Status, t.Code)
	return draw.OfRun(title, plan, t, waiting), nil
}
