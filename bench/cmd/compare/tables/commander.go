package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

const desktopCommander = "@wonderwhy-er/desktop-commander"

// shell is an arm: an agent that works with Desktop Commander, bare or through onecall.
type shell struct {
	*harness.Session
	ctx     context.Context
	project string // the folder for which calls have PROJECT
}

// ask makes one call.
func (s *shell) ask(tool, args string) string {
	return s.Call(s.ctx, tool, strings.ReplaceAll(args, "PROJECT", s.project))
}

// chain sends a chain whose answer is JSON or a text.
func (s *shell) chain(text string) (value any) {
	answer := s.ask("chain", strings.ReplaceAll(text, "\n", "")) // as a model writes it
	if json.Unmarshal([]byte(answer), &value) != nil {
		return answer // a text, which is not JSON
	}
	return value
}

// commander has an agent send fifty queries to Desktop Commander, bare and through chains, and do the same with onecall's own functions of
// files. Where Desktop Commander alone does not work, it is not measured.
func commander(ctx context.Context, b *harness.Bench) {
	project := filepath.Join(b.Temp, "project")
	files := copyProject(project, b.Package(desktopCommander))
	bare, through := &shell{ctx: ctx, project: project}, &shell{ctx: ctx, project: project}
	alone(func() {
		cmd, _ := home(b, "bare", project).command(ctx, b)
		bare.Session = b.Open(ctx, cmd)
	})
	defer bare.End()
	through.Session = b.OpenOnecall(ctx, "commander", harness.Config{"mcpServers": behind(ctx, b, home(b, "behind", project))})
	defer through.End()
	own := &shell{ctx: ctx, project: project}
	own.Session = b.OpenOnecall(ctx, "own", ownConfig(project))
	defer own.End()
	session(b, bare, through, own, files)
	commanderTimes(b, bare, through)
}

// alone does work with Desktop Commander alone, whose failure is not one of onecall.
func alone(work func()) { harness.CheckHere(harness.Try(work)) }

// home returns Desktop Commander with a home folder of its own, and a PATH without programs: after each call Desktop Commander asks the
// python3 on its PATH for its version, which some answer slowly.
func home(b *harness.Bench, name, project string) *server {
	s := fleet[slices.IndexFunc(fleet, func(s server) bool { return s.program == desktopCommander })]
	folder := filepath.Join(b.Temp, name)
	s.env = []string{"HOME=" + folder, "DESKTOP_COMMANDER_DISABLE_TELEMETRY=1", "PATH=" + folder}
	harness.WriteFile(filepath.Join(folder, ".claude-server-commander/config.json"), fmt.Appendf(nil, `{"allowedDirectories":[%q]}`, project))
	return &s
}

// session has all three do all queries once, and counts tokens.
func session(b *harness.Bench, bare, through, own *shell, files int) {
	for _, s := range []*shell{bare, through, own} {
		s.CountList(s.ctx)
	}
	through.ask("search", `{"query":"list directory, read file, search content, file info"}`) // a bare client's model has read all signatures
	own.learns()
	costs := []report.Row{cost("the functions are looked up", harness.Tokens{}, own.Spent)}
	for i := range queries {
		var want any
		bareBefore, ownBefore := bare.Spent, own.Spent
		alone(func() { want = queries[i].bare(bare) })
		queries[i].compare(want, queries[i].chained(through))
		own.owns(i, want)
		costs = append(costs, cost(queries[i].name, bare.Spent.Since(bareBefore), own.Spent.Since(ownBefore)))
	}
	harness.FailIf(bare.Spent.Calls != 50, "%d queries", bare.Spent.Calls)
	var rows []report.Row
	for _, s := range []struct {
		name string
		harness.Tokens
	}{{"bare", bare.Spent}, {"onecall", through.Spent}, {"onecall's own functions", own.Spent}} {
		row := report.Row{Name: s.name, Cells: []report.Cell{report.Count(s.Calls, "")}}
		for _, n := range []int{s.Written, s.Read, s.Written + s.Read, s.List, s.All()} {
			row.Cells = append(row.Cells, report.Count(n, "tokens"))
		}
		rows = append(rows, row)
	}
	b.Table("(d) Desktop Commander: fifty queries of an agent",
		[]string{"", "round trips", "written", "read", "written and read", "list", "all"}, rows...)
	b.Table("(d) Desktop Commander: each of the queries, and by onecall's own functions",
		[]string{"", "bare: round trips", "written", "read", "own functions: round trips", "written", "read"}, costs...)
	b.Corpus = append(b.Corpus, fmt.Sprintf("(d): Desktop Commander at work on a copy of its own package, %d files", files))
	b.Figure(report.RatioFigure("desktop-commander/tokens", "Desktop Commander, 50 queries, written and read, without lists: onecall / bare",
		through.Spent.Written+through.Spent.Read, bare.Spent.Written+bare.Spent.Read, 0.75),
		report.RatioFigure("desktop-commander/tokens-with-list", "the same with the lists", through.Spent.All(), bare.Spent.All(), 0),
		report.RatioFigure("own/tokens", "the same queries by onecall's own functions, without lists: onecall / bare Desktop Commander",
			own.Spent.Written+own.Spent.Read, bare.Spent.Written+bare.Spent.Read, 0),
		report.RatioFigure("own/tokens-with-list", "the same with the lists", own.Spent.All(), bare.Spent.All(), 0))
}

// cost returns the row of what a query cost.
func cost(name string, bare, own harness.Tokens) report.Row {
	row := report.Row{Name: name}
	for _, t := range []harness.Tokens{bare, own} {
		row.Cells = append(row.Cells, report.Count(t.Calls, ""), report.Count(t.Written, "tokens"), report.Count(t.Read, "tokens"))
	}
	return row
}

// compare checks that both results of a query are equal.
func (q *query) compare(want, got any) {
	if !isEqual(want, got) {
		harness.Fail("%s: onecall is wrong: bare %.600v, onecall %.600v", q.name, plain(want), plain(got))
	}
}

// isEqual reports whether two values are the same JSON.
func isEqual(a, b any) bool { return reflect.DeepEqual(plain(a), plain(b)) }

// plain returns a value as JSON decodes it.
func plain(value any) (p any) {
	harness.Check(json.Unmarshal(harness.Must(json.Marshal(value)), &p))
	return p
}

// rest is a pause for the work that Desktop Commander does after a call, which would slow down the other side.
const rest = 30 * time.Millisecond

// callTimes holds the milliseconds of a call by round, bare and through onecall, and by how much the second is longer.
type callTimes struct {
	bare, through, added, share []float64
	took                        [2]float64 // what the current round has taken, bare and through onecall
}

// time adds the times of both sides to the round. The sides take turns at going first.
func (a *callTimes) time(turn int, bare, through func()) {
	harness.Turn(turn, 2, func(side int) {
		time.Sleep(rest)
		began := time.Now()
		[]func(){bare, through}[side]()
		a.took[side] += time.Since(began).Seconds() * 1000
	})
}

// end ends a round in which each side has made that many calls.
func (a *callTimes) end(calls int) {
	bare, through := a.took[0]/float64(calls), a.took[1]/float64(calls)
	a.bare, a.through = append(a.bare, bare), append(a.through, through)
	a.added, a.share, a.took = append(a.added, through-bare), append(a.share, (through-bare)/bare), [2]float64{}
}

func (a *callTimes) row(name string) report.Row {
	return report.Row{Name: name, Cells: []report.Cell{report.Of(a.bare, "ms"), report.Of(a.through, "ms"),
		report.Of(a.added, "ms").Computed(), report.Of(a.share, "×").Computed()}}
}

// figure returns the time that onecall adds to a call. The project's own limit is 0.2 ms.
func (a *callTimes) figure(name, title, why string) report.Figure {
	f := report.SpreadFigure(name, title, a.added, "ms")
	f.Max, f.Why = 0.2, why
	return f
}

// commanderTimes measures how much time onecall adds.
func commanderTimes(b *harness.Bench, bare, through *shell) {
	rounds, singles := 20, 10
	if b.Short {
		rounds, singles = 5, 6
	}
	var session, single callTimes
	for round := range rounds {
		before := bare.Spent.Calls
		for i := range queries {
			q := &queries[i]
			if q.searches {
				continue
			}
			var want, got any
			session.time(round, func() { alone(func() { want = q.bare(bare) }) }, func() { got = q.chained(through) })
			q.compare(want, got)
		}
		session.end(bare.Spent.Calls - before)
		for i := range singles {
			single.time(round+i, func() { bare.ask("get_file_info", `{"path":"PROJECT/README.md"}`) }, func() {
				through.chain(`{"steps":[{"fn":"get_file_info","args":{"path":"PROJECT/README.md"}}],"lite":true}`)
			})
			single.end(1)
		}
	}
	b.Table("(d) Desktop Commander: time a query, without the model", []string{"", "bare", "onecall", "added a call", "added, as a share"},
		session.row("the session, without its searches"), single.row("single calls, each a chain of one step"))
	b.Figure(session.figure("desktop-commander/added-ms", "Desktop Commander session without its searches: time that onecall adds to a call "+
		"(negative: it runs reads side by side)", "A chain is checked, planned and recorded, and each of its calls passes one more process."),
		single.figure("desktop-commander/added-single-ms", "a single call of Desktop Commander as a chain of one step: time that onecall adds",
			"A chain is checked, planned and recorded, and its call passes one more process; nothing runs side by side."))
}

// copyProject copies the package without its node_modules, as a project whose files are the same on every machine, and returns how many
// there are.
func copyProject(to, from string) (files int) {
	harness.Check(filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "node_modules" && path != from:
			return filepath.SkipDir
		case !entry.IsDir():
			files++
			harness.WriteFile(filepath.Join(to, harness.Must(filepath.Rel(from, path))), harness.Must(os.ReadFile(path)))
		}
		return nil
	}))
	return files
}
