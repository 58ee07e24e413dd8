//go:build unix

package sqljournal_test

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

// wantUnavailable checks that an error is unavailable and says what is wrong.
func wantUnavailable(t *testing.T, err error, what string) {
	t.Helper()
	if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), what) {
		t.Errorf("error %v, want unavailable with %q", err, what)
	}
}

// wantAllFail checks that each method fails in the same way.
func wantAllFail(t *testing.T, d journal.Driver, what string) {
	t.Helper()
	for name, f := range map[string]func(context.Context) error{
		"Write": func(ctx context.Context) error {
			_, err := d.Write(ctx, []journal.Write{typical("run_x", false)})
			return err
		},
		"Acquire": func(ctx context.Context) error { _, err := d.Acquire(ctx, "run_x", nil); return err },
		"Load":    func(ctx context.Context) error { _, err := d.Load(ctx, "run_x", 0, 0); return err },
		"LoadRow": func(ctx context.Context) error { _, err := d.LoadRow(ctx, "run_x"); return err },
		"Find":    func(ctx context.Context) error { _, _, err := d.Find(ctx, "", "k"); return err },
		"List":    func(ctx context.Context) error { _, err := d.List(ctx, &journal.Filter{}); return err },
		"Days":    func(ctx context.Context) error { _, err := d.Days(ctx, &journal.Filter{}); return err },
		"Check":   d.Check,
		"Verify":  d.Verify,
		"Expire":  func(ctx context.Context) error { return d.Expire(ctx, time.Now(), time.Now()) },
	} {
		err := f(t.Context())
		if wantUnavailable(t, err, what); t.Failed() {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestDamaged: a file that is damaged or not a database is not changed; after it was removed, a new database is made.
func TestDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	for name, text := range map[string][]byte{
		"not a database":   []byte(strings.Repeat("no database ", 1000)),
		"a damaged header": append([]byte("SQLite format 3\x00"), make([]byte, 5000)...),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		d := openSQLite(t, path)
		wantAllFail(t, d, "move it away")
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
			t.Errorf("%s: the driver changed the file: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(ctx context.Context) error {
			_, err := d.Write(ctx, []journal.Write{typical("run_a", false)})
			return err
		})
		d.Close()
		os.Remove(path)
	}
}

// TestDamagedPages: a database whose pages were overwritten fails, and does not panic.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	d := openSQLite(t, path)
	for i := range 20 {
		mustWrite(t, d, typical(newID(i), false))
	}
	d.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096 * 2; i < len(text); i++ {
		text[i] = byte(i * 7)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	d = openSQLite(t, path)
	_, err = d.Write(t.Context(), []journal.Write{typical("run_x", false)})
	wantUnavailable(t, err, "journal.db")
	_, err = d.List(t.Context(), &journal.Filter{})
	wantUnavailable(t, err, "journal.db")
}

// TestVerify: a page that no other operation reads is damaged, and Verify tells.
func TestVerify(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	d := openSQLite(t, path)
	for i := range 200 {
		mustWrite(t, d, typical(newID(i), true))
	}
	if err := d.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(text[len(text)/4096/2*4096:][:4096])
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	wantUnavailable(t, openSQLite(t, path).Verify(t.Context()), "journal.db is damaged")
}

// TestLocked: another program keeps the file locked for longer than the driver waits. Reads succeed meanwhile, and writes succeed after the
// lock was released.
func TestLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	d := openSQLite(t, path)
	mustWrite(t, d, typical("run_a", false))
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=exclusive")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = d.Write(t.Context(), []journal.Write{typical("run_b", false)})
	wantUnavailable(t, err, "locked by another program")
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("the write gave up after %v, want at least 4s", took)
	}
	if _, err := d.Load(t.Context(), "run_a", 0, 0); err != nil {
		t.Errorf("read of a locked database: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if d.Check(ctx) == nil {
		t.Error("Check of a locked database succeeded")
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, d, typical("run_b", false))
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUnusable: the path of the folder is a file.
func TestUnusable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantAllFail(t, openSQLite(t, filepath.Join(file, "journal.db")), "name another file")
}

// TestUnusableElsewhere: a message about a file that is no journal, or a folder, says what to do with it, what is lost, and how to have the
// journal at another place.
func TestUnusableElsewhere(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	broken := filepath.Join(folder, "broken.db")
	if err := os.WriteFile(broken, bytes.Repeat([]byte("no journal "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		broken: "is damaged, or is not a journal: move it away, with the files beside it whose names begin with its own, and a new one is made. " +
			"The runs in it can then no longer be shown, resumed or undone. Or set HERE to another folder",
		folder: "is a folder, and must be a file: move it away, or set HERE to another folder",
	} {
		d, err := sqljournal.OpenSQLite(path, &sqljournal.Options{Elsewhere: "set HERE to another folder"})
		if err != nil {
			t.Fatal(err)
		}
		wantAllFail(t, d, want)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnreadable: a database that this user may only read is refused. The superuser can write to any.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("the superuser may write to each file")
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	openSQLite(t, path).Close()
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	wantAllFail(t, openSQLite(t, path), "this user may write")
}

// TestClosed: a closed driver does nothing more.
func TestClosed(t *testing.T) {
	t.Parallel()
	for _, where := range []string{filepath.Join(t.TempDir(), "journal.db"), shared.Start(t).Database(t)} {
		d := openAt(t, where)
		mustWrite(t, d, typical("run_a", false))
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if _, err := d.Load(t.Context(), "run_a", 0, 0); err == nil || d.Close() != nil {
			t.Errorf("%s: Load after Close: %v, want an error, and none of a second Close", where, err)
		}
	}
}

// TestPostgresRefuses: a read-only server, a server that does not let this user create tables, and one that has lost its tables.
func TestPostgresRefuses(t *testing.T) {
	t.Parallel()
	s := shared.Start(t)
	url := s.Database(t)
	name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	admin, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	must := func(query string) {
		t.Helper()
		if _, err := admin.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	must("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	readOnly := openPostgres(t, url)
	_, err = readOnly.Write(t.Context(), []journal.Write{typical("run_a", false)})
	wantUnavailable(t, err, "is read-only: name the primary server")
	must("SET default_transaction_read_only = off")
	must("ALTER DATABASE " + name + " RESET default_transaction_read_only")
	eventually(t, func(ctx context.Context) error {
		_, err := readOnly.Write(ctx, []journal.Write{typical("run_a", false)})
		return err
	})

	guest := "guest_of_" + name // roles belong to the server, not to a database
	must("CREATE ROLE " + guest + " LOGIN PASSWORD 'guest'")
	_, err = openPostgres(t, strings.Replace(url, url[strings.Index(url, "onecall:"):strings.Index(url, "@")], guest+":guest",
		1)).Load(t.Context(), "run_a", 0, 0)
	wantUnavailable(t, err, "allow the user to write")

	must("DROP TABLE onecall_runs, onecall_meta, onecall_functions, onecall_segments, onecall_days, onecall_holders, " +
		"onecall_state, onecall_state_owners, onecall_pieces")
	_, err = readOnly.Load(t.Context(), "run_a", 0, 0)
	wantUnavailable(t, err, "lost its tables")
	eventually(t, func(ctx context.Context) error {
		_, err := readOnly.Write(ctx, []journal.Write{typical("run_a", false)})
		return err
	})
}

// TestMoved: a database that was removed while it was open is made again, and other drivers find it.
func TestMoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "journal.db")
	d := openSQLite(t, path)
	mustWrite(t, d, typical("run_a", false))
	entries, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.Remove(entry); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, d, typical("run_b", false))
	other := openSQLite(t, path)
	if _, err := other.Load(t.Context(), "run_b", 0, 0); err != nil {
		t.Error(err)
	}
	if _, err := other.Acquire(t.Context(), "run_b", nil); err != journal.ErrBusy { //nolint:errorlint // it is not wrapped
		t.Errorf("Acquire after the file was recreated: %v, want ErrBusy", err)
	}
}

// TestPrivate: no other user may read the files.
func TestPrivate(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "state")
	d := openSQLite(t, filepath.Join(folder, "journal.db"))
	mustWrite(t, d, typical("run_a", false))
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 4 { // the database, its log, the index of the log, and the lock file
		t.Fatalf("files %v, want 4: %v", entries, err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v; want mode 0700", info, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("file %v, %v; want mode 0600", info, err)
		}
	}
}

// TestPostgresUnreachable: errors of an unreachable server say what is wrong, and never show the password.
func TestPostgresUnreachable(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:s3cret%zz@h/d", "postgres://u:s3cret@h:99999/d", "host=h password='s3cret", "",
		"postgres://u:s3cret@h/d?connect_timeout=x"} {
		if _, err := sqljournal.OpenPostgres(url, nil); fault.CodeOf(err) != fault.BadRequest || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want bad_request without the password", url, err)
		}
	}
	wantAllFail(t, openPostgres(t, "postgres://u:s3cret@127.0.0.1:1/d"), "does not answer")
	wantAllFail(t, openPostgres(t, "postgres://u:s3cret@/d?host="+t.TempDir()), "does not answer")
	wrongLogin := strings.Replace(shared.Start(t).Database(t), "onecall:", "onecall:s3cret", 1)
	d := openPostgres(t, wrongLogin)
	wantAllFail(t, d, "refuses the login")
	_, err := d.Load(t.Context(), "run_a", 0, 0)
	for ; err != nil; err = unwrap(err) {
		if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), postgrestest.Password) {
			t.Errorf("an error shows the password: %v", err)
		}
	}
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}
