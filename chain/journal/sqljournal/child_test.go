//go:build unix

package sqljournal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
)

// childEnv makes the test binary write runs to a database, instead of running tests, until it is killed or a write fails.
const childEnv = "ONECALL_TEST_CHILD"

// writeAsChild writes runs to a database if childEnv is set, and reports whether it is. It prints a line for each acknowledged write. A
// write adds a segment to each of two runs, whose ids begin with a prefix.
func writeAsChild() bool {
	where, prefix, ok := strings.Cut(os.Getenv(childEnv), "\n")
	if !ok {
		return false
	}
	d, err := openAny(where)
	if err != nil {
		fmt.Println("error:", err)
		return true
	}
	for n := 1; err == nil; n++ {
		var list []journal.Write
		for _, name := range []string{"a", "b"} {
			w := typical(prefix+name, false)
			if n > 1 {
				w = journal.Write{ID: w.ID, Lease: 1, Row: w.Row}
			}
			w.Segment = segmentOf(n)
			list = append(list, w)
		}
		if _, err = d.Write(context.Background(), list); err == nil {
			fmt.Println(n)
		}
	}
	fmt.Println("error:", err)
	rows, err := d.List(context.Background(), &journal.Filter{})
	fmt.Println("rows:", len(rows), err)
	return true
}

func openAny(where string) (*sqljournal.Driver, error) {
	if strings.HasPrefix(where, "postgres:") {
		return sqljournal.OpenPostgres(where, nil)
	}
	return sqljournal.OpenSQLite(where, nil)
}

// segmentOf returns a segment that is large enough to show whether it is complete.
func segmentOf(n int) *journal.Segment {
	return &journal.Segment{Lease: 1, First: n, Events: fmt.Appendf(nil, `[{"n":%d}]`, n), Retained: []byte("kept"),
		Results: []byte(strings.Repeat(fmt.Sprintf("%06d", n), 700))}
}

// writer is a child process that writes; shell, if it is not "", comes before its command.
type writer struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func startWriter(t *testing.T, where, prefix, shell string) *writer {
	t.Helper()
	c := exec.Command(os.Args[0])
	if shell != "" {
		c = exec.Command("sh", "-c", shell+` exec "$0"`, os.Args[0])
	}
	c.Env = append(os.Environ(), childEnv+"="+where+"\n"+prefix)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return &writer{c, bufio.NewScanner(out)}
}

// kill kills the process, and returns the number of the last write that it acknowledged.
func (w *writer) kill(acknowledged int) int {
	_ = w.Process.Kill()
	for w.lines.Scan() {
		_, _ = fmt.Sscan(w.lines.Text(), &acknowledged)
	}
	_ = w.Wait()
	return acknowledged
}

// checkRuns checks that two runs have all acknowledged writes, perhaps one more, and no partial write. A server may still be executing that
// write between the two reads.
func checkRuns(t *testing.T, d journal.Driver, prefix string, acknowledged int) {
	t.Helper()
	var a, b int
	eventually(t, func(context.Context) error {
		if a, b = segmentsOf(t, d, prefix+"a"), segmentsOf(t, d, prefix+"b"); a != b {
			return fmt.Errorf("the runs have %d and %d segments", a, b)
		}
		return nil
	})
	if a < acknowledged || a > acknowledged+1 {
		t.Fatalf("%d writes acknowledged, the runs have %d and %d segments, want as many or one more", acknowledged, a, b)
	}
}

// segmentsOf returns the number of segments of a run, and checks that each is as it was written; 0: there is no such run.
func segmentsOf(t *testing.T, d journal.Driver, id string) int {
	t.Helper()
	rec, err := d.Load(t.Context(), id, 0, 0)
	if errors.Is(err, journal.ErrNotFound) {
		return 0
	} else if err != nil {
		t.Fatal(err)
	}
	for i, s := range rec.Segments {
		if want := segmentOf(i + 1); s.First != want.First || string(s.Events) != string(want.Events) ||
			string(s.Results) != string(want.Results) {
			t.Fatalf("segment %d of %s is damaged:\n%+v\nwant\n%+v", i+1, id, s, want)
		}
	}
	return len(rec.Segments)
}
