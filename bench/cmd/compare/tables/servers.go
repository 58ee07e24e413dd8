package tables

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// server is an MCP server over stdio.
type server struct {
	name    string   // its name in onecall's configuration
	program string   // a key of npmPackages or goPrograms
	script  string   // the script in the package that Node.js runs; "": program is an executable
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
	{"commander", "@wonderwhy-er/desktop-commander", "dist/index.js", []string{"--no-onboarding"}, []string{"HOME=@"}},
	{"git", "@cyanheads/git-mcp-server", "dist/index.js", nil, []string{"MCP_TRANSPORT_TYPE=stdio", "HOME=@"}},
	{"devtools", "chrome-devtools-mcp", "build/src/bin/chrome-devtools-mcp.js", nil, []string{"HOME=@"}},
	{"notion", "@notionhq/notion-mcp-server", "bin/cli.mjs", nil, []string{"NOTION_TOKEN=none"}},
	{"github", "@modelcontextprotocol/server-github", "dist/index.js", nil, []string{"GITHUB_PERSONAL_ACCESS_TOKEN=none"}},
	{"grafana", "mcp-grafana", "", nil, []string{"GRAFANA_URL=http://127.0.0.1:1", "GRAFANA_SERVICE_ACCOUNT_TOKEN=none"}},
	{"conformance", "everything-server", "", nil, nil},
}

// start returns a server's program and arguments, and its environment as NAME=value.
func (b *bench) start(s server) (program string, args, env []string, err error) {
	at := func(list []string) (all []string) {
		for _, text := range list {
			all = append(all, strings.ReplaceAll(text, "@", b.folder))
		}
		return all
	}
	args, env = at(s.args), at(s.env)
	if s.script == "" {
		program, err = b.program(s.program)
		return program, args, env, err
	}
	folder, err := b.packageFolder(s.program)
	if err != nil {
		return "", nil, nil, err
	}
	program, err = exec.LookPath("node")
	return program, append([]string{filepath.Join(folder, filepath.FromSlash(s.script))}, args...), env, err
}

// bare returns the command with which a client without onecall starts a server.
func (b *bench) bare(s server) (*exec.Cmd, error) {
	program, args, env, err := b.start(s)
	if err != nil {
		return nil, err
	}
	cmd := b.command(program, args...)
	cmd.Env = append(cmd.Env, env...)
	return cmd, nil
}

// behind returns servers as entries of onecall's configuration.
func (b *bench) behind(list ...server) (map[string]any, error) {
	all := map[string]any{}
	for _, s := range list {
		program, args, env, err := b.start(s)
		if err != nil {
			return nil, err
		}
		set := map[string]string{"HOME": b.folder}
		for _, pair := range env {
			key, value, _ := strings.Cut(pair, "=")
			set[key] = value
		}
		all[s.name] = map[string]any{"command": program, "args": args, "env": set}
	}
	return all, nil
}

// servers compares the lists of many servers with the list of onecall in front of them.
func (b *bench) servers(ctx context.Context) error {
	var rows []report.Row
	var listed []server
	var sum, tools int
	for _, s := range fleet {
		tokens, n, err := b.listOf(ctx, s)
		if err != nil {
			rows = append(rows, row(s.program, words(proc.Scrub(err.Error())), words("–")))
			continue
		}
		rows = append(rows, row(s.program, number(n), tokensOf(tokens)))
		listed, sum, tools = append(listed, s), sum+tokens, tools+n
	}
	behind, err := b.behind(listed...)
	if err != nil {
		return err
	}
	d, err := b.serve(ctx, "servers", setup{"mcpServers": behind})
	if err != nil {
		return err
	}
	defer d.close()
	limit, err := d.countListing(ctx, b.count)
	if err != nil {
		return err
	}
	if err := b.checkFunctionCount(ctx, d, tools); err != nil {
		return err
	}
	chain := d.spent.list
	rows = append(rows, row(fmt.Sprintf("%d servers, bare", len(listed)), number(tools), tokensOf(sum)),
		row("onecall in front of them, surface `chain`", number(limit), tokensOf(chain)))
	b.table("(b) Tool lists of MCP servers from npm and the Go proxy", []string{"server", "tools", "list"}, rows...)
	b.corpus("(b): the MCP servers of the table, from npm and the Go module proxy; they list their tools without network and account")
	if !b.Short {
		b.countFigure("servers/chain", "tool list in front of all servers", chain)
		b.section.Figures = append(b.section.Figures, // what servers list depends on the versions of their dependencies
			report.Figure{Name: "servers/bare", Value: float64(sum), Unit: "tokens", How: report.Measured,
				Title: fmt.Sprintf("tool lists of %d servers, %d tools", len(listed), tools)},
			report.Figure{Name: "servers/list", Value: float64(chain) / float64(sum), Unit: "×", How: report.Computed,
				Title: "tool lists of all servers: onecall / bare"})
	}
	return nil
}

// listOf returns the tokens that a model reads of a server alone, and the number of its tools.
func (b *bench) listOf(ctx context.Context, s server) (tokens, tools int, err error) {
	cmd, err := b.bare(s)
	if err != nil {
		return 0, 0, err
	}
	d, err := open(ctx, cmd, nil)
	if err != nil {
		return 0, 0, err
	}
	defer d.close()
	tools, err = d.countListing(ctx, b.count)
	return d.spent.list, tools, err
}

// checkFunctionCount returns an error unless onecall has at least that many functions.
func (b *bench) checkFunctionCount(ctx context.Context, d *dialog, tools int) error {
	text, err := d.answer(ctx, "info", `{}`)
	if err != nil {
		return err
	}
	if got := gjson.Get(text, "functions").Int(); got < int64(tools) {
		return fmt.Errorf("%d functions behind onecall, and the servers have %d tools: %s", got, tools, text)
	}
	return nil
}
