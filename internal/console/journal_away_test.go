package console_test

import (
	"database/sql"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
)

// fileShop is a shop whose journal is a file.
type fileShop struct {
	*shop
	path string
	ann  *browser
}

// newFileShop opens a console over the journal in a file. patience bounds how long it waits for the file; 0: as long as usual.
func newFileShop(t *testing.T, path string, patience time.Duration) *fileShop {
	t.Helper()
	driver, err := sqljournal.OpenSQLite(path, &sqljournal.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.New(driver, &journal.Options{Key: make([]byte, journal.MinKeyBytes)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, func(b *console.Backend) { b.Journal = j })
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	ann := &browser{&http.Client{Jar: jar}, t, s.site}
	if status, page := ann.post("login?to=playground", url.Values{"token": {"ann"}}); status != http.StatusOK { // a page that needs no journal
		t.Fatalf("the login: status %d: %s", status, page)
	}
	return &fileShop{s, path, ann}
}

// alter carries out a statement on a journal as another program, which keeps the file open until the result is closed.
func alter(t *testing.T, path, statement string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
	return db
}

// wantRefused fails the test unless each page of runs, and the stream of one, says what is wrong with the journal, and what helps.
func (s *fileShop) wantRefused(t *testing.T, why string) {
	t.Helper()
	for _, path := range []string{"", "runs/run_x", "runs/run_x/approve", "runs/run_x/steps/0", "runs/run_x/calls/1", "runs/run_x/fix", "runs/run_x/undo",
		"runs/run_x/compare", "approvals", "savings", "functions", "events", "events?run=run_x"} {
		status, page := s.ann.get(path)
		if status != fault.Unavailable.HTTP() {
			t.Errorf("%q: status %d, want that of unavailable: %s", path, status, page)
		}
		wantText(t, textOf(page), why)
	}
	_, form := s.ann.get("playground")
	for _, path := range []string{"approve", "fix", "undo", "resume"} {
		status, page := s.ann.send(form, "runs/run_x/"+path, url.Values{"decision": {"approve-all"}, "digest": {"x"}})
		if status != fault.Unavailable.HTTP() {
			t.Errorf("%s: status %d, want that of unavailable: %s", path, status, page)
		}
		wantText(t, textOf(page), "Not done", why)
	}
}

// TestJournalLocked: a journal that another program has locked is said to be, page by page, until it is not locked any more. While a lock
// keeps only writes back, pages are shown, and a decision that could not be recorded is none.
func TestJournalLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	lock := alter(t, path, "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE other (n)")
	newFileShop(t, path, 200*time.Millisecond).wantRefused(t, "is locked by another program, or its disk is too slow: end that program, or name another file")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}

	s := newFileShop(t, path, 2*time.Second)
	run, _ := s.run(t, "token:ann", onePut)
	path = "runs/" + run + "/approve"
	_, page := s.ann.get(path)
	lock = alter(t, s.path, "BEGIN EXCLUSIVE")
	_, list := s.ann.get("")
	wantText(t, list, run)
	form := url.Values{"decision": {"approve-all"}}
	status, refused := s.ann.send(page, path, form)
	if status != fault.Unavailable.HTTP() {
		t.Errorf("a decision that cannot be recorded: status %d", status)
	}
	wantText(t, textOf(refused), "Not done", "is locked by another program")
	if got := s.status(t, run); got != journal.Waiting {
		t.Errorf("after a decision that was not recorded the run is %s, want waiting", got)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if status, page := s.ann.send(page, path, form); status != http.StatusOK || s.status(t, run) != journal.MayContinue {
		t.Errorf("the same decision later: status %d: %s", status, page)
	}
}

// TestJournalOfNewerVersion: a journal that a newer version of onecall has written is left as it is, and pages say what to do.
func TestJournalOfNewerVersion(t *testing.T) {
	t.Parallel()
	older := newFileShop(t, filepath.Join(t.TempDir(), "journal.db"), 0)
	older.run(t, "token:ann", onePut)
	alter(t, older.path, "UPDATE onecall_meta SET version = version + 1")
	newFileShop(t, older.path, 0).wantRefused(t, "was written by a newer version of onecall")
}

// TestJournalGone: a journal whose file is removed while pages are open is an empty one, in which the runs are not. If none can be made,
// pages say why.
func TestJournalGone(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "onecall")
	s := newFileShop(t, filepath.Join(folder, "journal.db"), 0)
	run, _ := s.run(t, "token:ann", onePut)
	_, form := s.ann.get("runs/" + run + "/approve")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	status, list := s.ann.get("")
	if status != http.StatusOK {
		t.Errorf("the list of a journal that was removed: status %d: %s", status, list)
	}
	wantText(t, list, "No run matches", "!"+run)
	for _, path := range []string{"runs/" + run, "runs/" + run + "/approve", "events?run=" + run} {
		status, page := s.ann.get(path)
		if status != fault.TokenExpired.HTTP() {
			t.Errorf("%s: status %d: %s", path, status, page)
		}
		wantText(t, textOf(page), "there is no such run here", "or the journal is another one")
	}
	status, page := s.ann.send(form, "runs/"+run+"/approve", url.Values{"decision": {"approve-all"}})
	if status != fault.TokenExpired.HTTP() {
		t.Errorf("a decision about a run that is gone: status %d: %s", status, page)
	}
	s.wantCalls(t)

	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.wantRefused(t, "name another file")
}
