package tables

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	err     error  // the first error; no call is made after it
}

// ask makes one call.
func (s *shell) ask(tool, args string) (text string) {
	if s.err == nil {
		text, s.err = s.Call(s.ctx, tool, strings.ReplaceAll(args, "PROJECT", s.project))
	}
	return text
}

// chain sends a chain whose answer is JSON or a text.
func (s *shell) chain(text string) (value any) {
	answer := s.ask("chain", strings.ReplaceAll(text, "\n", "")) // as a model writes it
	if json.Unmarshal([]byte(answer), &value) != nil {
		return answer // the text of a chain of one step, which is not JSON
	}
	return value
}

// errOnecall means that onecall failed, or answered differently than Desktop Commander alone.
var errOnecall = errors.New("onecall is wrong")

// commander has an agent send fifty queries to Desktop Commander, bare and through chains. Where Desktop Commander does not work, it is not
// measured.
func commander(ctx context.Context, b *harness.Bench) error {
	source, err := b.Package(desktopCommander)
	if err != nil {
		return err
	}
	project := filepath.Join(b.Temp, "project")
	files, err := copyProject(project, source)
	if err != nil {
		return err
	}
	bare, through, err := commanders(ctx, b, project)
	if err == nil {
		defer bare.End()
		defer through.End()
		err = session(b, bare, through, files)
	}
	if err == nil {
		err = commanderTimes(b, bare, through)
	}
	if err != nil && !errors.Is(err, errOnecall) {
		return fmt.Errorf("%w: %w", harness.ErrNotHere, err)
	}
	return err
}

// commanders starts Desktop Commander for a bare client, and a second one behind onecall. Each has its own home folder, and a PATH without
// programs: after each call Desktop Commander asks the python3 on its PATH for its version, which some answer slowly.
func commanders(ctx context.Context, b *harness.Bench, project string) (bare, through *shell, err error) {
	at := func(name string) (s server, err error) {
		s = fleet[slices.IndexFunc(fleet, func(s server) bool { return s.program == desktopCommander })]
		home := filepath.Join(b.Temp, name)
		s.env = []string{"HOME=" + home, "DESKTOP_COMMANDER_DISABLE_TELEMETRY=1", "PATH=" + home}
		settings := filepath.Join(home, ".claude-server-commander")
		if err := os.MkdirAll(settings, 0o755); err != nil {
			return s, err
		}
		return s, os.WriteFile(filepath.Join(settings, "config.json"), fmt.Appendf(nil, `{"allowedDirectories":[%q]}`, project), 0o600)
	}
	first, err := at("bare")
	if err != nil {
		return nil, nil, err
	}
	second, err := at("behind")
	if err != nil {
		return nil, nil, err
	}
	cmd, _, err := first.command(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	all, err := behind(ctx, b, &second)
	if err != nil {
		return nil, nil, err
	}
	alone, err := b.Open(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	ours, err := b.OpenOnecall(ctx, "commander", harness.Config{"mcpServers": all})
	if err != nil {
		alone.End()
		return nil, nil, err
	}
	return &shell{Session: alone, ctx: ctx, project: project}, &shell{Session: ours, ctx: ctx, project: project}, nil
}

// session has both do all queries once, and counts tokens.
func session(b *harness.Bench, bare, through *shell, files int) error {
	for _, s := range []*shell{bare, through} {
		if _, _, err := s.CountList(s.ctx); err != nil {
			return err
		}
	}
	through.ask("search", `{"query":"list directory, read file, search content, file info"}`) // a bare client's model has read all signatures
	for i := range queries {
		if err := queries[i].compare(queries[i].bare(bare), queries[i].chained(through), bare, through); err != nil {
			return err
		}
	}
	if bare.Spent.Calls != 50 {
		return fmt.Errorf("%d queries", bare.Spent.Calls)
	}
	var rows []report.Row
	for _, s := range []struct {
		name string
		harness.Tokens
	}{{"bare", bare.Spent}, {"onecall", through.Spent}} {
		row := report.Row{Name: s.name, Cells: []report.Cell{report.Count(s.Calls, "")}}
		for _, n := range []int{s.Written, s.Read, s.Written + s.Read, s.List, s.All()} {
			row.Cells = append(row.Cells, report.Count(n, "tokens"))
		}
		rows = append(rows, row)
	}
	b.Table("(d) Desktop Commander: fifty queries of an agent",
		[]string{"", "round trips", "written", "read", "written and read", "list", "all"}, rows...)
	b.Corpus = append(b.Corpus, fmt.Sprintf("(d): Desktop Commander at work on a copy of its own package, %d files", files))
	b.Comment("(d) The round trips are those of calls one by one. A host that makes independent calls side by side needs fewer: how many " +
		"was not counted.")
	b.Comment("(d) A model writes more for chains than for the single calls, as it writes what becomes of each answer, too. " +
		"It reads the signatures by a search, which is counted as read. Its chains give what it would have picked out of the answers itself; " +
		"where it wants the answers, it gets them whole.")
	without := report.RatioFigure("desktop-commander/tokens", "Desktop Commander, 50 queries, written and read, without lists: onecall / bare",
		float64(through.Spent.Written+through.Spent.Read), float64(bare.Spent.Written+bare.Spent.Read))
	without.Max = 0.75
	b.Figure(without, report.RatioFigure("desktop-commander/tokens-with-list", "the same with the lists",
		float64(through.Spent.All()), float64(bare.Spent.All())))
	return nil
}

// compare checks that both results of a query are equal.
func (q *query) compare(want, got any, bare, through *shell) error {
	w, g := plain(want), plain(got)
	switch {
	case bare.err != nil:
		return fmt.Errorf("%s: bare: %w", q.name, bare.err)
	case through.err != nil:
		return fmt.Errorf("%s: %w: %w", q.name, errOnecall, through.err)
	case !reflect.DeepEqual(w, g):
		return fmt.Errorf("%s: %w: bare %.600v, onecall %.600v", q.name, errOnecall, w, g)
	}
	return nil
}

// plain returns a value as JSON decodes it.
func plain(value any) (p any) {
	text, _ := json.Marshal(value) // never fails for strings, numbers, lists and maps
	_ = json.Unmarshal(text, &p)
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
	_ = harness.Turn(turn, 2, func(side int) error {
		time.Sleep(rest)
		began := time.Now()
		[]func(){bare, through}[side]()
		a.took[side] += time.Since(began).Seconds() * 1000
		return nil
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
	value, low, high := report.Spread(a.added)
	return report.Figure{Name: name, Title: title, Value: value, Low: low, High: high, Rounds: len(a.added), Unit: "ms", How: report.Computed,
		Max: 0.2, Why: why}
}

// commanderTimes measures how much time onecall adds.
func commanderTimes(b *harness.Bench, bare, through *shell) error {
	rounds, singles := 20, 10
	if b.Short {
		rounds, singles = 5, 6
	}
	var session, alone callTimes
	for round := range rounds {
		before := bare.Spent.Calls
		for i := range queries {
			q := &queries[i]
			if q.searches {
				continue
			}
			var want, got any
			session.time(round, func() { want = q.bare(bare) }, func() { got = q.chained(through) })
			if err := q.compare(want, got, bare, through); err != nil {
				return err
			}
		}
		session.end(bare.Spent.Calls - before)
		for i := range singles {
			alone.time(round+i, func() { bare.ask("get_file_info", `{"path":"PROJECT/README.md"}`) }, func() {
				through.chain(`{"steps":[{"fn":"get_file_info","args":{"path":"PROJECT/README.md"}}],"lite":true}`)
			})
			alone.end(1)
			if err := cmp.Or(bare.err, through.err); err != nil {
				return err
			}
		}
	}
	b.Table("(d) Desktop Commander: time a query, without the model", []string{"", "bare", "onecall", "added a call", "added, as a share"},
		session.row("the session, without its searches"), alone.row("single calls, each a chain of one step"))
	b.Figure(session.figure("desktop-commander/added-ms", "Desktop Commander session without its searches: time that onecall adds to a call "+
		"(negative: it runs reads side by side)", "A chain is checked, planned and recorded, and each of its calls passes one more process."),
		alone.figure("desktop-commander/added-single-ms", "a single call of Desktop Commander as a chain of one step: time that onecall adds",
			"A chain is checked, planned and recorded, and its call passes one more process; nothing runs side by side."))
	b.Comment("(d) Bare, one call follows the other. In a chain the reads of a `forEach` run side by side, which makes up for some or all of " +
		"what each chain costs; a single call has no such gain.")
	b.Comment("(d) After each call Desktop Commander looks for Python, by running it. It finds none here: where it does, each of " +
		"two calls in a row, bare or not, waits for that.")
	b.Comment("(d) The searches of the session are left out of its times: Desktop Commander searches in the background, a client asks " +
		"again until it is done, and that takes some 100 to 300 ms, most of it the start of a program. " +
		"Bare, each is asked for once it is done, as a model's round trip takes longer; a chain asks again by `repeat`.")
	return nil
}

// copyProject copies the package without its node_modules, as a project whose files are the same on every machine, and returns how many
// there are.
func copyProject(to, from string) (files int, err error) {
	err = filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "node_modules" && path != from:
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), text, 0o644)
	})
	return files, err
}
