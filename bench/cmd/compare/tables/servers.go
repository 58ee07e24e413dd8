package tables

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// server is an MCP server over stdio.
type server struct {
	name    string   // its name in onecall's configuration
	program string   // its npm package, or the name of a Go program
	script  string   // the script in the package that Node.js runs; "": a Go program
	args    []string // @ stands for the folder that the server works on
	env     []string // @ as in args. No value is a secret: servers that ask for one list their tools with any
}

// fleet lists servers that list their tools without a network or an account.
var fleet = []server{
	{"everything", "@modelcontextprotocol/server-everything", "dist/index.js", nil, nil},
	{"files", "@modelcontextprotocol/server-filesystem", "dist/index.js", []string{"@"}, nil},
	{"memory", "@modelcontextprotocol/server-memory", "dist/index.js", nil, []string{"MEMORY_FILE_PATH=@/memory.jsonl"}},
	{"thinking", "@modelcontextprotocol/server-sequential-thinking", "dist/index.js", nil, nil},
	{"playwright", "@playwright/mcp", "cli.js", []string{"--headless"}, nil},
	{"commander", desktopCommander, "dist/index.js", []string{"--no-onboarding"}, nil},
	{"git", "@cyanheads/git-mcp-server", "dist/index.js", nil, []string{"MCP_TRANSPORT_TYPE=stdio"}},
	{"devtools", "chrome-devtools-mcp", "build/src/bin/chrome-devtools-mcp.js", nil, nil},
	{"notion", "@notionhq/notion-mcp-server", "bin/cli.mjs", nil, []string{"NOTION_TOKEN=none"}},
	{"github", "@modelcontextprotocol/server-github", "dist/index.js", nil, []string{"GITHUB_PERSONAL_ACCESS_TOKEN=none"}},
	{"grafana", "mcp-grafana", "", nil, []string{"GRAFANA_URL=http://127.0.0.1:1", "GRAFANA_SERVICE_ACCOUNT_TOKEN=none"}},
	{"conformance", "everything-server", "", nil, nil},
}

// command returns the command with which a client starts the server, and the variables that it adds to the environment.
func (s *server) command(ctx context.Context, b *harness.Bench) (cmd *exec.Cmd, env []string) {
	fill := func(list []string) (all []string) {
		for _, text := range list {
			all = append(all, strings.ReplaceAll(text, "@", b.Temp))
		}
		return all
	}
	args := fill(s.args)
	if s.script == "" {
		cmd = b.Cmd(b.Go(ctx, s.program), args...)
	} else {
		cmd = b.Cmd("node", append([]string{filepath.Join(b.Package(s.program), filepath.FromSlash(s.script))}, args...)...)
	}
	env = append([]string{"HOME=" + b.Temp}, fill(s.env)...)
	cmd.Env = append(cmd.Env, env...)
	return cmd, env
}

// behind returns servers as entries of onecall's configuration.
func behind(ctx context.Context, b *harness.Bench, list ...*server) map[string]any {
	all := map[string]any{}
	for _, s := range list {
		cmd, env := s.command(ctx, b)
		set := map[string]string{}
		for _, pair := range env {
			key, value, _ := strings.Cut(pair, "=")
			set[key] = value
		}
		all[s.name] = map[string]any{"command": cmd.Path, "args": cmd.Args[1:], "env": set}
	}
	return all
}

// listed is a server, or several, with the tokens of the lists and the number of tools; why says why there are none.
type listed struct {
	name, why     string
	tokens, tools int
}

// servers compares the lists of many servers with the list of onecall in front of them.
func servers(ctx context.Context, b *harness.Bench) {
	b.Versions["node"] = harness.Release("node")
	var packages []string
	for _, s := range fleet {
		if s.script != "" {
			packages = append(packages, s.program)
		}
	}
	b.Packages(ctx, packages...)
	var rows []listed
	var started []*server
	var sum listed
	for i := range fleet {
		row := listOf(ctx, b, &fleet[i])
		if rows = append(rows, row); row.why == "" {
			started, sum.tokens, sum.tools = append(started, &fleet[i]), sum.tokens+row.tokens, sum.tools+row.tools
		}
	}
	ours := (&surface{name: "servers", config: harness.Config{"mcpServers": behind(ctx, b, started...)}}).look(ctx, b, sum.tools)
	sum.name = fmt.Sprintf("%d servers, bare", len(started))
	rows = append(rows, sum, listed{name: "onecall in front of them, surface `chain`", tools: ours.tools, tokens: ours.List})
	b.Tables = append(b.Tables, report.TableOf("(b) Tool lists of MCP servers from npm and the Go proxy", "server", rows,
		func(l listed) (string, string) { return l.name, l.why },
		report.Column[listed]{Title: "tools", Cell: func(l listed) report.Cell { return report.Count(l.tools, "") }},
		report.Column[listed]{Title: "list", Cell: func(l listed) report.Cell { return report.Count(l.tokens, "tokens") }}))
	b.Corpus = append(b.Corpus,
		"(b): the MCP servers of the table, from npm and the Go module proxy; they list their tools without network and account")
	if !b.Short {
		b.Figure(report.TokenFigure("servers/chain", "tool list in front of all servers", ours.List),
			report.TokenFigure("servers/bare", fmt.Sprintf("tool lists of %d servers, %d tools", len(started), sum.tools), sum.tokens),
			report.RatioFigure("servers/list", "tool lists of all servers: onecall / bare", ours.List, sum.tokens, 0))
	}
}

// listOf lists the tools of a server alone.
func listOf(ctx context.Context, b *harness.Bench, s *server) (l listed) {
	l.name = s.program
	if err := harness.Try(func() {
		cmd, _ := s.command(ctx, b)
		session := b.Open(ctx, cmd)
		defer session.End()
		_, l.tools = session.CountList(ctx)
		l.tokens = session.Spent.List
	}); err != nil {
		l.why = harness.OneLine(err)
	}
	return l
}
