// Compare measures onecall side by side with its users' alternatives on this machine, and writes the results to bench/results and
// bench/RESULTS.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/bounds"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/faults"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/flows"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/peers"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/pipelines"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/scale"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/tables"
	"github.com/onecall-mcp/onecall/bench/datasets"
)

// sections are measured in this order.
var sections = []*harness.Section{&peers.Section, &peers.Tasks, &pipelines.Section, &tables.Section, &scale.Section,
	&flows.Section, &faults.Section, &bounds.Section}

func main() {
	dropVariables()
	// Child processes run in process groups of their own, and must end with this program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := compare(ctx, os.Args[1:])
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted: the section under way is lost")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// comparison holds what the flags ask for.
type comparison struct {
	report.Options
	only, out, arms string
	render          bool
}

func compare(ctx context.Context, args []string) error {
	return harness.Try(func() {
		c := parse(args)
		chosen := selectSections(c.only)
		results, page, plots := c.out, filepath.Join(c.out, "RESULTS.md"), ""
		if c.out == "" {
			results, page, plots = filepath.Join(c.Root, "bench/results"), filepath.Join(c.Root, "bench/RESULTS.md"), "results/"
		}
		if c.Results = results; !c.render {
			c.measure(ctx, chosen, results)
		}
		c.write(results, page, plots)
		c.Log("written: %s and %s", page, results)
		if c.out == "" {
			c.Log("go generate ./... puts the figures into the documents; git restore bench takes all back")
		}
	})
}

func parse(args []string) *comparison {
	root, cache := harness.Must(filepath.Abs("../../..")), harness.Must(os.UserCacheDir())
	c := &comparison{Options: report.Options{Root: root,
		Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}}
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.StringVar(&c.Data, "data", filepath.Join(root, "../shared/data"), "a `folder` with data sets of real chains")
	flags.StringVar(&c.Tools, "tools", filepath.Join(cache, "onecall-compare"), "the `folder` for what is installed")
	flags.BoolVar(&c.Short, "short", false, "fewer rounds, and only what installs fast")
	flags.DurationVar(&c.Soak, "soak", 2*time.Minute, "how long the use of a server is watched; not at all with -short")
	flags.IntVar(&c.Faults, "faults", 500, "how many faults strike each system; at most 50 with -short")
	flags.StringVar(&c.arms, "arms", "", "have faults strike these `arms` alone, separated by commas; the last results of the others stay")
	flags.StringVar(&c.only, "only", "", "measure these `sections` alone, separated by commas")
	flags.StringVar(&c.out, "out", "", "the `folder` for the results (default bench/results)")
	flags.BoolVar(&c.render, "render", false, "measure nothing, write RESULTS.md and its plots from the results")
	harness.Check(flags.Parse(args))
	harness.FailIf(flags.NArg() > 0, "unexpected argument %q: sections are named by -only", flags.Arg(0))
	harness.FailIf(c.Soak < 10*time.Second, "-soak %v is too short: 10s is the least", c.Soak)
	c.Tools = harness.Must(filepath.Abs(c.Tools))
	if c.arms != "" {
		harness.FailIf(c.only != faults.Section.Name, "-arms is for -only %s", faults.Section.Name)
		c.Arms = strings.Split(c.arms, ",")
	}
	if !slices.ContainsFunc(datasets.Files(), func(name string) bool { return harness.Exists(filepath.Join(c.Data, name)) }) {
		harness.FailIf(c.Data != flags.Lookup("data").DefValue, "-data %s: none of %s exists (paths are relative to bench/cmd/compare)", c.Data,
			strings.Join(datasets.Files(), ", "))
		c.Data = ""
	}
	return c
}

// selectSections returns the sections that a comma-separated list names; "": all.
func selectSections(list string) (some []*harness.Section) {
	if list == "" {
		return sections
	}
	for _, name := range strings.Split(list, ",") {
		i := slices.Index(names(sections), strings.TrimSpace(name))
		harness.FailIf(i < 0, "unknown section %q: use %s", name, strings.Join(names(sections), ", "))
		some = append(some, sections[i])
	}
	return some
}

func names(list []*harness.Section) (all []string) {
	for _, s := range list {
		all = append(all, s.Name)
	}
	return all
}

// measure measures sections, and writes each to the folder. It checks first what would otherwise fail only later.
func (c *comparison) measure(ctx context.Context, list []*harness.Section, folder string) {
	for _, program := range []string{"node", "npm"} {
		_, err := exec.LookPath(program)
		harness.FailIf(err != nil && slices.ContainsFunc(list, func(s *harness.Section) bool { return !s.NoNode }),
			"%s is not installed; without it, only -only scale,flows,faults,bounds works: %w", program, err)
	}
	harness.Check(os.MkdirAll(folder, 0o755))
	c.Log("measures %s: all take some 17 minutes on two quiet cores (-short: 6), faults up to 30 more (-short: 5), and the first time 17 to install",
		strings.Join(names(list), ", "))
	c.Log("what is installed stays in %s, up to 1.5 GB (-short: 0.6): remove it when you are done", c.Tools)
	for _, s := range list {
		c.Log("== %s", s.Name)
		harness.In(s.Name, func() { harness.Check(harness.Must(s.Run(ctx, &c.Options)).Write(folder)) })
	}
}

// countsFolder has the counts of tokens that the tests of package bench hold.
const countsFolder = "bench/testdata"

// write writes the page and its plots from the files in the folder of results, and from the counts. plots is the prefix of the page's links
// to the plots.
func (c *comparison) write(results, page, plots string) {
	all := harness.Must(report.ReadAll(names(sections), results, filepath.Join(c.Root, countsFolder)))
	for _, s := range all {
		harness.Check(s.WritePlots(results))
	}
	harness.Check(os.WriteFile(page, report.Markdown(all, plots), 0o644))
}
