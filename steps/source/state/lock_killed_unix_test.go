//go:build unix

package state_test

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// takeLocksIn makes this test binary a process that takes locks until it is killed. It holds the database and the number of the first
// caller, in two lines.
const takeLocksIn = "ONECALL_TEST_TAKE_LOCKS"

// Fifty callers in five processes take three locks of a shared space.
const (
	lockProcesses     = 5
	callersPerProcess = 10
	lockNames         = 3
	lockTTL           = 300 * time.Millisecond
)

var postgres postgrestest.Shared

func TestMain(m *testing.M) {
	if where, first, ok := strings.Cut(os.Getenv(takeLocksIn), "\n"); ok {
		fmt.Println("failed", takeLocks(where, first))
		os.Exit(1)
	}
	polltest.MoreParallel()
	code := m.Run()
	postgres.Remove()
	os.Exit(code)
}

// lockTaker is a process that takes locks. It reads the clock of the database by its own connection.
type lockTaker struct {
	registry *steps.Registry
	db       *sql.DB
	clock    string
}

// takeLocks has callers take locks until one of them fails. They print a line for each lock that they hold, and before they end it.
func takeLocks(where, first string) error {
	p := lockTaker{clock: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"}
	open, driver, address := sqljournal.OpenSQLite, "sqlite", "file:"+where+"?_pragma=busy_timeout(60000)"
	if strings.HasPrefix(where, "postgres:") {
		p.clock = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
		open, driver, address = sqljournal.OpenPostgres, "pgx", where
	}
	d, err := open(where, &sqljournal.Options{Timeout: polltest.TooLong}) // a busy machine is slow
	if err != nil {
		return err
	}
	if p.db, err = sql.Open(driver, address); err != nil {
		return err
	}
	p.db.SetMaxOpenConns(1)
	j, err := journal.New(d, &journal.Options{Key: make([]byte, journal.MinKeyBytes)})
	if err != nil {
		return err
	}
	var team []string
	for i := range lockProcesses * callersPerProcess {
		team = append(team, fmt.Sprint("token:", i))
	}
	source := state.New(&state.Options{Journal: func() *journal.Journal { return j }, Spaces: map[string][]string{"team": team}})
	if p.registry, err = steps.NewRegistry(source.Functions(), nil); err != nil {
		return err
	}
	var caller int
	if _, err := fmt.Sscan(first, &caller); err != nil {
		return err
	}
	failed := make(chan error)
	for i := range callersPerProcess {
		go func() {
			failed <- p.takeTurns(as(context.Background(), team[caller+i]), fmt.Sprint("lock", i%lockNames))
		}()
	}
	return <-failed
}

// takeTurns takes a lock again and again. Some holders never end it.
func (p *lockTaker) takeTurns(ctx context.Context, name string) error {
	for {
		asked, err := p.now()
		if err != nil {
			return err
		}
		raw := call(ctx, p.registry, "state.lock", fmt.Sprintf(`{"name":%q,"space":"team","ttl":%q,"wait":"9m"}`, name, lockTTL))
		var got struct {
			Token string
			Fence int64
			Until time.Time
		}
		if err := json.Unmarshal([]byte(raw), &got); err != nil {
			return errors.New(raw)
		}
		held, err := p.now()
		if err != nil {
			return err
		}
		fmt.Println("holds", name, got.Fence, asked, got.Until.UnixMilli(), held)
		if rand.IntN(4) == 0 {
			continue
		}
		time.Sleep(rand.N(lockTTL)) // it works under the lock
		ends, err := p.now()
		if err != nil {
			return err
		}
		fmt.Println("ends", name, got.Fence, ends)
		if raw := call(ctx, p.registry, "state.unlock", `{"token":"`+got.Token+`"}`); !strings.HasPrefix(raw, `{"unlocked":`) {
			return errors.New(raw)
		}
	}
}

// now returns the time of the database in milliseconds, rounded down as the locks do.
func (p *lockTaker) now() (ms int64, err error) {
	err = p.db.QueryRow("SELECT " + p.clock).Scan(&ms)
	return ms / 1000, err
}

// holding is the time in which a lock was held, by the clock of the database, in milliseconds.
type holding struct {
	name               string
	fence              int64
	asked, until, held int64 // before the call; what it answered; after it
	ends               int64 // just before its holder ended it; 0: it never did
}

func (h *holding) from() int64 { return h.until - lockTTL.Milliseconds() }

// to is when nobody holds the lock any more, at the earliest.
func (h *holding) to() int64 {
	if h.ends != 0 {
		return min(h.ends, h.until)
	}
	return h.until
}

// checkHoldings says what is wrong unless each lock had one holder at a time, with a larger fence than those before. afterDead is how many
// locks were taken after a holder that never ended its own.
func checkHoldings(list []*holding) (wrong []string, afterDead int) {
	slices.SortFunc(list, func(a, b *holding) int { // several may hold a lock within a millisecond
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.from(), b.from()), cmp.Compare(a.fence, b.fence))
	})
	for i, h := range list {
		if h.from() < h.asked || h.from() > h.held {
			wrong = append(wrong, fmt.Sprintf("%+v was not taken between the call and its answer", *h))
		}
		if i == 0 || list[i-1].name != h.name {
			continue
		}
		before := list[i-1]
		if h.fence <= before.fence || h.from() < before.to() {
			wrong = append(wrong, fmt.Sprintf("%+v holds the lock beside %+v, or with no larger fence", *h, *before))
		}
		if before.ends == 0 {
			afterDead++
		}
	}
	return wrong, afterDead
}

// lockWorld is the processes that take locks in a database, and what they have printed.
type lockWorld struct {
	where     string
	processes [lockProcesses]*exec.Cmd
	lines     chan lockLine
	live      int // processes whose output has not ended
	holdings  map[string]*holding
}

// lockLine is a line that a process has printed; "": its output has ended.
type lockLine struct {
	process int
	text    string
}

func (w *lockWorld) start(t *testing.T, i int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprint(takeLocksIn, "=", w.where, "\n", i*callersPerProcess))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.processes[i] = c
	w.live++
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.lines <- lockLine{i, lines.Text()}
		}
		_ = c.Wait() // it was killed
		w.lines <- lockLine{process: i}
	}()
}

// read reads the next line, and reports whether it says that a process holds a lock.
func (w *lockWorld) read(t *testing.T) (process int, holds bool) {
	t.Helper()
	var line lockLine
	select {
	case line = <-w.lines:
	case <-time.After(polltest.TooLong):
		t.Fatalf("nobody has taken a lock for %v", polltest.TooLong)
	}
	if line.text == "" {
		w.live--
		return line.process, false
	}
	var h holding
	var ends int64
	if _, err := fmt.Sscanf(line.text, "ends %s %d %d", &h.name, &h.fence, &ends); err == nil {
		w.holdings[fmt.Sprint(h.name, " ", h.fence)].ends = ends
		return line.process, false
	}
	if _, err := fmt.Sscanf(line.text, "holds %s %d %d %d %d", &h.name, &h.fence, &h.asked, &h.until, &h.held); err != nil {
		t.Fatalf("a process says %q", line.text)
	}
	id := fmt.Sprint(h.name, " ", h.fence)
	if other := w.holdings[id]; other != nil {
		t.Errorf("%+v has the fence of %+v", h, *other)
	}
	w.holdings[id] = &h
	return line.process, true
}

// killHolders has fifty callers take locks, while their processes are killed and replaced, and checks what they have held. Every other
// process is killed just when it has taken a lock.
func killHolders(t *testing.T, where string) {
	t.Helper()
	kills := 8
	if os.Getenv("ONECALL_TEST_LONG") != "" {
		kills = 500
	}
	w := &lockWorld{where: where, lines: make(chan lockLine), holdings: map[string]*holding{}}
	for i := range lockProcesses {
		w.start(t, i)
	}
	for kill := range kills {
		victim := -1
		for locks := 1 + rand.IntN(8); locks > 0; {
			if process, holds := w.read(t); holds {
				victim = process
				locks--
			}
		}
		if kill%2 != 0 {
			victim = rand.IntN(lockProcesses)
		}
		_ = w.processes[victim].Process.Kill()
		for live := w.live; w.live == live; { // what it has printed comes before its end
			w.read(t)
		}
		w.start(t, victim)
	}
	for range 2 * lockNames { // somebody takes the locks of those who were killed
		for _, holds := w.read(t); !holds; _, holds = w.read(t) {
		}
	}
	for _, c := range w.processes {
		_ = c.Process.Kill()
	}
	for w.live > 0 {
		w.read(t)
	}
	var list []*holding
	for _, h := range w.holdings {
		list = append(list, h)
	}
	wrong, afterDead := checkHoldings(list)
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("%d kills; locks were taken %d times, %d times after a holder that never ended its own", kills, len(list), afterDead)
	if len(list) < 2*kills || afterDead < kills/2 {
		t.Errorf("locks were taken %d times, %d times after a holder that never ended its own; want more", len(list), afterDead)
	}
}

// TestLockKilledSQLite: callers whose processes are killed at any moment hold a lock one after another, by the clock of the database.
func TestLockKilledSQLite(t *testing.T) {
	t.Parallel()
	killHolders(t, filepath.Join(t.TempDir(), "journal.db"))
}

func TestLockKilledPostgres(t *testing.T) {
	t.Parallel()
	killHolders(t, postgres.Start(t).Database(t))
}

// TestCheckHoldings: the check finds two holders at a time, a fence that does not grow, and a lock that was not taken by the clock of the
// database.
func TestCheckHoldings(t *testing.T) {
	t.Parallel()
	ttl := lockTTL.Milliseconds()
	at := func(fence, from, ends int64) *holding {
		return &holding{name: "lock", fence: fence, asked: from - 1, until: from + ttl, held: from + 1, ends: ends}
	}
	other := at(2, 1001, 0)
	other.name = "other"
	late := at(2, 2000, 0)
	late.held = late.from() - 1
	for name, test := range map[string]struct {
		list             []*holding
		wrong, afterDead int
	}{
		"right":            {[]*holding{at(1, 1000, 1100), at(2, 1100, 0), at(5, 1100+ttl, 0), other}, 0, 1},
		"ended too late":   {[]*holding{at(1, 1000, 1001+ttl), at(2, 1000+ttl, 0)}, 0, 0},
		"two at a time":    {[]*holding{at(1, 1000, 1100), at(2, 1099, 0)}, 1, 0},
		"beside a dead":    {[]*holding{at(1, 1000, 0), at(2, 999+ttl, 0)}, 1, 1},
		"a smaller fence":  {[]*holding{at(2, 1000, 1100), at(1, 1100, 0)}, 1, 0},
		"by another clock": {[]*holding{late}, 1, 0},
		"at one time":      {[]*holding{at(2, 1000, 1000), at(1, 1000, 1000)}, 0, 0},
	} {
		if wrong, afterDead := checkHoldings(test.list); len(wrong) != test.wrong || afterDead != test.afterDead {
			t.Errorf("%s: %d faults (%v), %d after a dead holder; want %d and %d", name, len(wrong), wrong, afterDead, test.wrong, test.afterDead)
		}
	}
}
