package tables

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// gateways31 holds 31 operations of GitHub in four gateways: the resources of each gateway, and their actions.
var gateways31 = map[string]map[string]string{
	"issues":     {"repo.issue": "create get list lock update", "repo.issue.comment": "create delete get list list_by_issue_number update"},
	"pulls":      {"repo.pull": "create get list merge merge_async update update_branch", "repo.branch": "get list rename"},
	"labels":     {"repo.label": "create delete get list update"},
	"milestones": {"repo.milestone": "create delete get list update"},
}

// gateways compares what is read of 31 flat tools before the first call with four dispatchers.
func gateways(ctx context.Context, b *harness.Bench) {
	spec := filepath.Join(b.Package("@octokit/openapi"), gitHubSpec)
	groups, include := map[string][]string{}, []string{}
	for gateway, resources := range gateways31 {
		for resource, actions := range resources {
			groups[gateway] = append(groups[gateway], "github."+resource)
			for _, action := range strings.Fields(actions) {
				include = append(include, resource+"."+action)
			}
		}
	}
	source := map[string]any{"github": map[string]any{"spec": spec, "baseUrl": "http://127.0.0.1:1", "include": include}}
	var rows []report.Row
	lists := map[string]int{}
	for _, s := range []struct {
		surface
		tools int // beside chain, search and info
	}{
		{surface{"flat", harness.Config{"surface": "flat", "functions": othersAlone}, nil}, 31},
		{surface{"dispatch", harness.Config{"surface": "dispatch", "groups": groups, "functions": othersAlone}, signatures("issues", `{}`)}, 4},
		{surface{"chain", harness.Config{}, signatures("search", `{"query":"repository issue, issue comment"}`)}, 0},
	} {
		s.config["openapi"] = source
		l := s.look(ctx, b, len(include))
		if got := l.tools - 3; got != s.tools {
			harness.Fail("%s: %d tools, want %d", s.name, got, s.tools)
		}
		help := report.Text("in the list")
		if l.Calls > 0 {
			help = report.Count(l.Written+l.Read, "tokens")
		}
		lists[s.name] = l.List
		rows = append(rows, report.Row{Name: "`" + s.name + "`",
			Cells: []report.Cell{report.Count(s.tools, ""), report.Count(l.List, "tokens"), help}})
	}
	b.Table("(c) 31 actions of GitHub in four gateways: what is read before the first call",
		[]string{"surface", "tools beside `chain`, `search`, `info`", "list", "signatures of issues and comments"}, rows...)
	b.Figure(report.RatioFigure("gateways/list", "list of 31 actions: 4 gateways / flat", lists["dispatch"], lists["flat"], 0))
}

// signatures asks a tool for the signatures of issues and their comments.
func signatures(tool, args string) func(caller) string {
	return func(call caller) string {
		text := call(tool, args)
		harness.FailIf(!strings.Contains(text, "list_by_issue_number"), "no signatures: %s", text)
		return text
	}
}
