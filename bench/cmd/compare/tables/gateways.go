package tables

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// gateways31 holds 31 operations of GitHub in four gateways: the resources of each gateway, and their actions.
var gateways31 = map[string]map[string]string{
	"issues":     {"repo.issue": "create get list lock update", "repo.issue.comment": "create delete get list list_by_issue_number update"},
	"pulls":      {"repo.pull": "create get list merge merge_async update update_branch", "repo.branch": "get list rename"},
	"labels":     {"repo.label": "create delete get list update"},
	"milestones": {"repo.milestone": "create delete get list update"},
}

// gateways compares 31 flat tools with four dispatchers.
func (b *bench) gateways(ctx context.Context) error {
	const title = "(c) 31 actions of GitHub in four gateways: what is read before the first call"
	folder, err := b.packageFolder("@octokit/openapi")
	if err != nil {
		b.notMeasured(title, err)
		return nil
	}
	groups, include := map[string][]string{}, []string{}
	for gateway, resources := range gateways31 {
		for resource, actions := range resources {
			groups[gateway] = append(groups[gateway], "github."+resource)
			for _, action := range strings.Fields(actions) {
				include = append(include, resource+"."+action)
			}
		}
	}
	source := map[string]any{"github": map[string]any{
		"spec": filepath.Join(folder, gitHubSpec), "baseUrl": "http://127.0.0.1:1", "include": include,
	}}
	var rows []report.Row
	lists := map[string]int{}
	for _, s := range []struct {
		name  string
		setup setup
		tools int
	}{
		{"flat", setup{"surface": "flat", "functions": othersAlone}, 31},
		{"dispatch", setup{"surface": "dispatch", "groups": groups, "functions": othersAlone}, 4},
		{"chain", setup{}, 0},
	} {
		s.setup["openapi"] = source
		list, help, err := b.gateway(ctx, s.name, s.setup, s.tools)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		lists[s.name] = list
		rows = append(rows, row("`"+s.name+"`", number(s.tools), tokensOf(list), help))
	}
	b.table(title, []string{"surface", "tools beside `chain`, `search`, `info`", "list", "signatures of issues and comments"}, rows...)
	b.tokenFigure("gateways/list", "list of 31 actions: 4 gateways / flat", lists["dispatch"], lists["flat"], 0)
	return nil
}

// gateway returns the tokens of a surface's list, and what the signatures of a gateway's actions cost there.
func (b *bench) gateway(ctx context.Context, name string, s setup, tools int) (list int, help report.Cell, err error) {
	d, err := b.serve(ctx, "gateways-"+name, s)
	if err != nil {
		return 0, help, err
	}
	defer d.close()
	n, err := d.countListing(ctx, b.count)
	if err != nil {
		return 0, help, err
	}
	if got := n - 3; got != tools { // 3: chain, search and info
		return 0, help, fmt.Errorf("%d tools, want %d", got, tools)
	}
	help = words("in the list")
	ask := map[string][2]string{"dispatch": {"issues", `{}`}, "chain": {"search", `{"query":"repository issue, issue comment"}`}}
	if call, ok := ask[name]; ok {
		text, err := d.call(ctx, b.count, call[0], call[1])
		if err != nil || !strings.Contains(text, "list_by_issue_number") {
			return 0, help, fmt.Errorf("no signatures: %s: %w", text, err)
		}
		help = tokensOf(d.spent.written + d.spent.read)
	}
	return d.spent.list, help, nil
}
