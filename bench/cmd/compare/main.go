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

	"github.com/onecall-mcp/onecall/bench/cmd/compare/peers"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/pipelines"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/scale"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/tables"
	"github.com/onecall-mcp/onecall/bench/datasets"
)

// sections are measured in this order.
var sections = []section{
	{"peers", peers.Section.Run, true, 9, 2},
	{"tasks", peers.Tasks.Run, true, 1, 1},
	{"pipelines", pipelines.Section.Run, true, 1, 1},
	{"tables", tables.Section.Run, true, 1, 1},
	{"scale", scale.Section.Run, false, 5, 1},
}

type section struct {
	name        string
	run         report.Run
	npm         bool // it needs Node.js and npm
	long, short int  // about how many minutes each form takes on two quiet cores, once all is installed
}

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
	only, out string
	render    bool
}

func compare(ctx context.Context, args []string) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	chosen, err := selectSections(c.only)
	if err != nil {
		return err
	}
	results, page, plots := c.out, filepath.Join(c.out, "RESULTS.md"), ""
	if c.out == "" {
		results, page, plots = filepath.Join(c.Root, "bench/results"), filepath.Join(c.Root, "bench/RESULTS.md"), "results/"
	}
	if !c.render {
		if err := c.ready(chosen, results); err != nil {
			return err
		}
		if err := c.measure(ctx, chosen, results); err != nil {
			return err
		}
	}
	if err := c.write(results, page, plots); err != nil {
		return err
	}
	c.Log("written: %s and %s", page, results)
	if c.out == "" {
		c.Log("go generate ./... puts the figures into the documents; git restore bench takes all back")
	}
	return nil
}

func parse(args []string) (*comparison, error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	c := &comparison{Options: report.Options{Root: root,
		Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}}
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.StringVar(&c.Data, "data", filepath.Join(root, "../shared/data"), "a `folder` with data sets of real chains")
	flags.StringVar(&c.Tools, "tools", filepath.Join(cache, "onecall-compare"), "the `folder` for what is installed")
	flags.BoolVar(&c.Short, "short", false, "fewer rounds, and only what installs fast")
	flags.StringVar(&c.only, "only", "", "measure these `sections` alone, separated by commas")
	flags.StringVar(&c.out, "out", "", "the `folder` for the results (default bench/results)")
	flags.BoolVar(&c.render, "render", false, "measure nothing, write RESULTS.md and its plots from the results")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: sections are named by -only", flags.Arg(0))
	}
	if c.Tools, err = filepath.Abs(c.Tools); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(datasets.Files(), func(name string) bool {
		_, err := os.Stat(filepath.Join(c.Data, name))
		return err == nil
	}) {
		if c.Data != flags.Lookup("data").DefValue {
			return nil, fmt.Errorf("-data %s: none of %s exists (paths are relative to bench/cmd/compare)", c.Data,
				strings.Join(datasets.Files(), ", "))
		}
		c.Data = ""
	}
	return c, nil
}

// selectSections returns the sections that a comma-separated list names; "": all.
func selectSections(list string) ([]section, error) {
	if list == "" {
		return sections, nil
	}
	var some []section
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(sections, func(s section) bool { return s.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("unknown section %q: use %s", name, strings.Join(names(sections), ", "))
		}
		some = append(some, sections[i])
	}
	return some, nil
}

func names(list []section) (all []string) {
	for _, s := range list {
		all = append(all, s.name)
	}
	return all
}

// ready checks what would otherwise fail only later, and logs what is about to happen.
func (c *comparison) ready(list []section, results string) error {
	minutes := 0
	for _, s := range list {
		if c.Short {
			minutes += s.short
		} else {
			minutes += s.long
		}
		for _, program := range []string{"node", "npm"} {
			if _, err := exec.LookPath(program); err != nil && s.npm {
				return fmt.Errorf("%s is not installed; without it, only -only scale works: %w", program, err)
			}
		}
	}
	if err := os.MkdirAll(results, 0o755); err != nil {
		return err
	}
	c.Log("measures %s: some %d minutes on two quiet cores, and the first time as much again to install",
		strings.Join(names(list), ", "), minutes)
	c.Log("what is installed stays in %s, up to 1.5 GB (-short: 0.6): remove it when you are done", c.Tools)
	if c.Data == "" {
		c.Log("no data sets: the recorded chains are left out (their sources are in bench/README.md)")
	}
	return nil
}

func (c *comparison) measure(ctx context.Context, list []section, folder string) error {
	for _, s := range list {
		c.Log("== %s", s.name)
		began, commit := time.Now().UTC().Truncate(time.Second), report.Commit(c.Root)
		measured, err := s.run(ctx, &c.Options)
		if err == nil && measured.Began.IsZero() {
			measured.Began, measured.Commit = began, commit
			if c.Short {
				measured.Command += report.ShortFlag
			}
		}
		if err == nil {
			err = measured.Write(folder)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// countsFolder has the counts of tokens that the tests of package bench hold.
const countsFolder = "bench/testdata"

// write writes the page and its plots from the files in the folder of results, and from the counts. plots is the prefix of the page's links
// to the plots.
func (c *comparison) write(results, page, plots string) error {
	all, err := report.ReadAll(names(sections), results, filepath.Join(c.Root, countsFolder))
	if err != nil {
		return err
	}
	for _, name := range names(sections) {
		if !slices.ContainsFunc(all, func(s *report.Section) bool { return s.Name == name && !s.Counted() }) {
			c.Log("the page lacks the section %s: %s.json does not exist", name, name)
		}
	}
	for _, s := range all {
		if err := s.WritePlots(results); err != nil {
			return err
		}
	}
	return os.WriteFile(page, report.Markdown(all, plots), 0o644)
}
