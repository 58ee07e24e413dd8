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

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// shell is an agent that works with Desktop Commander, bare or through onecall.
type shell struct {
	*dialog
	ctx     context.Context
	count   *counter
	project string
	err     error // the first error; no call is made after it
}

// ask makes one call.
func (s *shell) ask(tool string, args map[string]any) (text string) {
	if s.err != nil {
		return ""
	}
	if path, ok := args["path"].(string); ok {
		args["path"] = filepath.Join(s.project, path)
	}
	encoded, err := json.Marshal(args)
	if err == nil {
		text, err = s.call(s.ctx, s.count, tool, string(encoded))
	}
	s.err = err
	return text
}

// chain sends a chain whose answer is JSON or a text.
func (s *shell) chain(text string) (value any) {
	if s.err != nil {
		return nil
	}
	var answer string
	answer, s.err = s.call(s.ctx, s.count, "chain", strings.ReplaceAll(text, "PROJECT", s.project))
	if json.Unmarshal([]byte(answer), &value) != nil {
		return answer // the text of a chain of one step, which is not JSON
	}
	return value
}

// errOnecall means that onecall failed, or answered differently than Desktop Commander alone.
var errOnecall = errors.New("onecall is wrong")

// commander has an agent send fifty queries to Desktop Commander, bare and through chains. If Desktop Commander does not work here, the
// table says why.
func (b *bench) commander(ctx context.Context) error {
	const title = "(d) Desktop Commander: fifty queries of an agent"
	err := b.commanderSession(ctx, title)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errOnecall) {
		b.notMeasured(title, err)
		return nil
	}
	return err
}

func (b *bench) commanderSession(ctx context.Context, title string) error {
	source, err := b.packageFolder("@wonderwhy-er/desktop-commander")
	if err != nil {
		return err
	}
	project := filepath.Join(b.folder, "project")
	if err := copyProject(project, source); err != nil {
		return err
	}
	one, other, err := b.commanders(ctx, project)
	if err != nil {
		return err
	}
	defer one.close()
	defer other.close()
	bare := &shell{dialog: one, ctx: ctx, count: b.count, project: project}
	through := &shell{dialog: other, ctx: ctx, count: b.count, project: project}
	for _, s := range []*shell{bare, through} {
		if _, err := s.countListing(ctx, b.count); err != nil {
			return err
		}
	}
	// The model of a bare client has read all signatures in the list.
	if _, err := through.call(ctx, b.count, "search", `{"query":"list directory, read file, search content, file info"}`); err != nil {
		return err
	}
	for _, t := range queries {
		if err := t.compare(bare, through); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if bare.spent.calls != 50 {
		return fmt.Errorf("%d queries", bare.spent.calls)
	}
	line := func(name string, t tokens) report.Row {
		return row(name, number(t.calls), tokensOf(t.written), tokensOf(t.read), tokensOf(t.written+t.read), tokensOf(t.list),
			tokensOf(t.total()))
	}
	b.table(title, []string{"", "round trips", "written", "read", "written and read", "list", "all"},
		line("bare", bare.spent), line("onecall", through.spent))
	b.corpus(fmt.Sprintf("(d): Desktop Commander at work on a copy of its own package, %d files", filesIn(project)))
	b.comment("(d) The round trips are those of calls one by one. A host that makes independent calls side by side needs fewer: how many " +
		"was not counted.")
	b.comment("(d) A model writes more for chains than for the single calls, as it writes what becomes of each answer, too. " +
		"It reads the signatures by a search, which is counted as read. Its chains give what it would have picked out of the answers itself; " +
		"where it wants the answers, it gets them whole.")
	b.tokenFigure("desktop-commander/tokens", "Desktop Commander, 50 queries, written and read, without lists: onecall / bare",
		through.spent.written+through.spent.read, bare.spent.written+bare.spent.read, 0.75)
	b.tokenFigure("desktop-commander/tokens-with-list", "the same with the lists", through.spent.total(), bare.spent.total(), 0)
	return b.commanderTimes(bare, through)
}

// commanders starts Desktop Commander for a bare client, and a second one behind onecall. Each has its own home folder, and a PATH without
// programs: after each call Desktop Commander asks the python3 on its PATH for its version, which some answer slowly.
func (b *bench) commanders(ctx context.Context, project string) (bare, through *dialog, err error) {
	s := fleet[slices.IndexFunc(fleet, func(s server) bool { return s.name == "commander" })]
	home := func(name string) (server, error) {
		folder := filepath.Join(b.folder, name)
		settings := filepath.Join(folder, ".claude-server-commander")
		if err := os.MkdirAll(settings, 0o755); err != nil {
			return s, err
		}
		s.env = []string{"HOME=" + folder, "DESKTOP_COMMANDER_DISABLE_TELEMETRY=1", "PATH=" + folder}
		text, err := json.Marshal(map[string]any{"allowedDirectories": []string{project}})
		if err != nil {
			return s, err
		}
		return s, os.WriteFile(filepath.Join(settings, "config.json"), text, 0o600)
	}
	first, err := home("bare")
	if err != nil {
		return nil, nil, err
	}
	second, err := home("behind")
	if err != nil {
		return nil, nil, err
	}
	cmd, err := b.bare(first)
	if err != nil {
		return nil, nil, err
	}
	behind, err := b.behind(second)
	if err != nil {
		return nil, nil, err
	}
	if bare, err = open(ctx, cmd, nil); err != nil {
		return nil, nil, err
	}
	if through, err = b.serve(ctx, "commander", setup{"mcpServers": behind}); err != nil {
		bare.close()
		return nil, nil, err
	}
	return bare, through, nil
}

// compare has both do a task, and checks that the results are equal.
func (t *query) compare(bare, through *shell) error {
	want, got := t.bare(bare), t.chains(through)
	if bare.err != nil {
		return fmt.Errorf("bare: %w", bare.err)
	}
	if through.err != nil {
		return fmt.Errorf("%w: %w", errOnecall, through.err)
	}
	if w, g := plain(want), plain(got); !reflect.DeepEqual(w, g) {
		return fmt.Errorf("%w: bare %.600v, onecall %.600v", errOnecall, w, g)
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

// alternately measures both; even rounds begin with bare.
func alternately(round int, bare, through func()) (tookBare, tookThrough time.Duration) {
	timed := func(f func()) time.Duration {
		time.Sleep(rest)
		began := time.Now()
		f()
		return time.Since(began)
	}
	if round%2 == 0 {
		tookBare = timed(bare)
		return tookBare, timed(through)
	}
	tookThrough = timed(through)
	return timed(bare), tookThrough
}

// commanderTimes measures how much time onecall adds.
func (b *bench) commanderTimes(bare, through *shell) error {
	rounds, singles := 20, 10
	if b.Short {
		rounds, singles = 5, 6
	}
	var session, alone callTimes
	for round := range rounds {
		before := bare.spent.calls
		for _, t := range queries {
			if t.searches {
				continue
			}
			var want, got any
			session.add(alternately(round, func() { want = t.bare(bare) }, func() { got = t.chains(through) }))
			if err := cmp.Or(bare.err, through.err); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			if !reflect.DeepEqual(plain(want), plain(got)) {
				return fmt.Errorf("%w: %s: the answers differ", errOnecall, t.name)
			}
		}
		session.round(bare.spent.calls - before)
		for i := range singles {
			alone.add(alternately(round+i, func() {
				bare.ask("get_file_info", map[string]any{"path": "README.md"})
			}, func() {
				through.chain(`{"steps":[{"fn":"get_file_info","args":{"path":"PROJECT/README.md"}}],"lite":true}`)
			}))
			alone.round(1)
			if err := cmp.Or(bare.err, through.err); err != nil {
				return err
			}
		}
	}
	b.table("(d) Desktop Commander: time a query, without the model", []string{"", "bare", "onecall", "added a call", "added, as a share"},
		session.row("the session, without its searches"), alone.row("single calls, each a chain of one step"))
	b.section.Figures = append(b.section.Figures,
		session.figure("desktop-commander/added-ms", "Desktop Commander session without its searches: time that onecall adds to a call "+
			"(negative: it runs reads side by side)", "A chain is checked, planned and recorded, and each of its calls passes one more process."),
		alone.figure("desktop-commander/added-single-ms", "a single call of Desktop Commander as a chain of one step: time that onecall adds",
			"A chain is checked, planned and recorded, and its call passes one more process; nothing runs side by side."))
	b.comment("(d) Bare, one call follows the other. In a chain the reads of a `forEach` run side by side, which makes up for some or all of " +
		"what each chain costs; a single call has no such gain.")
	b.comment("(d) After each call Desktop Commander looks for Python, by running it. It finds none here: where it does, each of " +
		"two calls in a row, bare or not, waits for that.")
	b.comment("(d) The searches of the session are left out of its times: Desktop Commander searches in the background, a client asks " +
		"again until it is done, and that takes some 100 to 300 ms, most of it the start of a program. " +
		"Bare, each is asked for once it is done, as a model's round trip takes longer; a chain asks again by `repeat`.")
	return nil
}

// copyProject copies the package without its node_modules, as a project whose files are the same on every machine.
func copyProject(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
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
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), text, 0o644)
	})
}

func filesIn(folder string) (n int) {
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			n++
		}
		return nil
	})
	return n
}
