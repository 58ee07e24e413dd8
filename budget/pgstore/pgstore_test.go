//go:build unix

package pgstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/pgstore"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

// incompressible returns n random bytes.
func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(b) // never fails
	return b
}

// entry returns an entry that lives for an hour from now.
func entry(owner string, now time.Time, value []byte) budget.Entry {
	return budget.Entry{Owner: owner, Created: now, Expires: now.Add(time.Hour), Value: value}
}

func put(t testing.TB, s *pgstore.Store, key string, e budget.Entry) {
	t.Helper()
	if err := s.Put(t.Context(), key, e); err != nil {
		t.Fatalf("Put(%s): %v %v", key, err, errors.Unwrap(err))
	}
}

func has(t *testing.T, s *pgstore.Store, key string) bool {
	t.Helper()
	_, err := s.Get(t.Context(), key, nil)
	if err != nil && !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Get(%s): %v", key, err)
	}
	return err == nil
}

// admin is a connection to a database beside the store's.
func admin(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, db *sql.DB, query string) (n int64) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// wrongSums counts the owners whose sum is not that of their results.
const wrongSums = `SELECT count(*) FROM (SELECT base, sum(stored) AS bytes FROM onecall_results GROUP BY base) r
	FULL JOIN onecall_result_owners o ON o.base = r.base WHERE coalesce(r.bytes, 0) <> coalesce(o.bytes, 0)`

// TestReplicas: stores of one database share results, and what they count for each owner stays right while they write, delete and evict
// at once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	url := shared.Start(t).Database(t)
	value := incompressible(20_000)
	var writers sync.WaitGroup
	for replica := range 3 {
		writers.Go(func() {
			s := open(t, pgstore.Options{URL: url, MaxBytes: 500_000})
			for i := range 30 {
				key := fmt.Sprint("key", (i+replica)%40)
				if err := s.Put(t.Context(), key, entry(fmt.Sprint("owner", i%4), time.Now(), value)); err != nil {
					t.Errorf("Put: %v %v", err, errors.Unwrap(err))
				}
				if i%5 == 0 {
					if err := s.Delete(t.Context(), key); err != nil {
						t.Errorf("Delete: %v", err)
					}
				}
			}
		})
	}
	writers.Wait()
	db := admin(t, url)
	if n := count(t, db, wrongSums); n != 0 {
		t.Errorf("%d owners have a wrong sum", n)
	}
	one, other := open(t, pgstore.Options{URL: url, MaxBytes: 500_000}), open(t, pgstore.Options{URL: url})
	put(t, one, "shared", entry("o", time.Now(), value))
	if e, err := other.Get(t.Context(), "shared", nil); err != nil || !bytes.Equal(e.Value, value) {
		t.Errorf("the other store got %d bytes, %v; want %d", len(e.Value), err, len(value))
	}
	if sum := count(t, db, "SELECT sum(stored) FROM onecall_results"); sum > 500_000 {
		t.Errorf("%d bytes are stored, limit 500000", sum)
	}
	if orphans := count(t, db, "SELECT count(*) FROM onecall_result_parts p WHERE p.key NOT IN (SELECT key FROM onecall_results)"); orphans != 0 {
		t.Errorf("%d parts have no result", orphans)
	}
}

// TestReplacedWhileRead: a value that is replaced or deleted between the question and the read is asked for again.
func TestReplacedWhileRead(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{URL: shared.Start(t).Database(t)})
	first, second := incompressible(3<<20), incompressible(2<<20)
	put(t, s, "k", entry("first", time.Now(), first))
	var asked []string
	e, err := s.Get(t.Context(), "k", func(e budget.Entry, _ int64) error {
		if asked = append(asked, e.Owner); len(asked) == 1 {
			put(t, s, "k", entry("second", time.Now(), second))
		}
		return nil
	})
	if err != nil || e.Owner != "second" || !bytes.Equal(e.Value, second) || strings.Join(asked, " ") != "first second" {
		t.Errorf("Get = %d bytes of %q, %v, asked for %q; want %d of second", len(e.Value), e.Owner, err, asked, len(second))
	}
	put(t, s, "gone", entry("o", time.Now(), first))
	_, err = s.Get(t.Context(), "gone", func(budget.Entry, int64) error { return s.Delete(t.Context(), "gone") })
	if !errors.Is(err, budget.ErrNotFound) {
		t.Errorf("Get of a value that was deleted meanwhile: %v, want ErrNotFound", err)
	}
}

// TestClocks: the server's clock decides how long results live, and replicas see times of their own clock.
func TestClocks(t *testing.T) {
	t.Parallel()
	url := shared.Start(t).Database(t)
	for _, ahead := range []time.Duration{-40 * 24 * time.Hour, -time.Hour, time.Second, time.Hour, 200 * 24 * time.Hour} {
		now := func() time.Time { return time.Now().Add(ahead) }
		other, right := open(t, pgstore.Options{URL: url, Now: now}), open(t, pgstore.Options{URL: url})
		e := entry("o", now(), []byte("1"))
		put(t, other, "k", e)
		for name, of := range map[string]*pgstore.Store{"itself": other, "right": right} {
			got, err := of.Get(t.Context(), "k", nil)
			want := time.Now()
			if of == other {
				want = now()
			}
			if err != nil || got.Created.Sub(want).Abs() > time.Minute || got.Expires.Sub(want.Add(time.Hour)).Abs() > time.Minute {
				t.Errorf("clock ahead %v, read by %s: %v to %v, %v; want an hour from %v", ahead, name, got.Created, got.Expires, err, want)
			}
		}
		if err := other.Touch(t.Context(), "k", now().Add(-time.Minute)); err != nil {
			t.Error(err)
		}
		if has(t, right, "k") {
			t.Errorf("clock ahead %v: a result lives on after its end", ahead)
		}
	}
}

// TestExpiredAreRemoved: a store that is written to removes what has expired, and the owners who have nothing left.
func TestExpiredAreRemoved(t *testing.T) {
	t.Parallel()
	url := shared.Start(t).Database(t)
	s := open(t, pgstore.Options{URL: url})
	for i := range 20 {
		key := fmt.Sprint(i)
		put(t, s, key, entry(fmt.Sprint("owner", i%3), time.Now(), incompressible(10)))
		if err := s.Touch(t.Context(), key, time.Now().Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, open(t, pgstore.Options{URL: url}), "new", entry("new", time.Now(), []byte("1"))) // the first one of a process looks
	db := admin(t, url)
	for table, want := range map[string]int64{"onecall_results": 1, "onecall_result_parts": 1, "onecall_result_owners": 1} {
		if n := count(t, db, "SELECT count(*) FROM "+table); n != want {
			t.Errorf("%s has %d rows, want %d", table, n, want)
		}
	}
}

// TestChangedByOthers: results that somebody else damaged or deleted are not found, and do not count for long.
func TestChangedByOthers(t *testing.T) {
	t.Parallel()
	url := shared.Start(t).Database(t)
	s := open(t, pgstore.Options{URL: url, MaxBytes: 10 << 20})
	db := admin(t, url)
	for _, size := range []int{100, 3 << 20} {
		for _, damage := range []string{"UPDATE onecall_result_parts SET bytes = 'other' WHERE n = 0", "DELETE FROM onecall_result_parts",
			"DELETE FROM onecall_result_parts WHERE n = (SELECT max(n) FROM onecall_result_parts)", "UPDATE onecall_results SET size = size + 1",
			"UPDATE onecall_results SET size = -1"} {
			put(t, s, "k", entry("o", time.Now(), incompressible(size)))
			exec(t, db, damage)
			if has(t, s, "k") {
				t.Errorf("%d bytes: found after %s", size, damage)
			}
		}
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		put(t, s, fmt.Sprint("lost", i), entry("lost", time.Now(), incompressible(2<<20)))
	}
	exec(t, db, "DELETE FROM onecall_results")
	for i := range 4 {
		put(t, s, fmt.Sprint("kept", i), entry("kept", time.Now(), incompressible(2<<20)))
	}
	if n := count(t, db, wrongSums); n != 0 {
		t.Errorf("%d owners have a wrong sum", n)
	}
	for i := range 4 {
		if !has(t, s, fmt.Sprint("kept", i)) {
			t.Errorf("result %d was evicted by what is not there any more", i)
		}
	}
	exec(t, db, "DROP TABLE onecall_results_meta, onecall_results, onecall_result_parts, onecall_result_owners")
	put(t, s, "again", entry("o", time.Now(), []byte("1")))
	if !has(t, s, "again") {
		t.Error("not found after the tables were dropped and created again")
	}
}

// wantUnavailable checks that operations fail with a cause for operators, and a message without an address.
func wantUnavailable(t *testing.T, s *pgstore.Store, cause string) {
	t.Helper()
	_, get := s.Get(t.Context(), "k", nil)
	for name, err := range map[string]error{"Get": get, "Put": s.Put(t.Context(), "k", entry("o", time.Now(), []byte("1"))),
		"Touch": s.Touch(t.Context(), "k", time.Now().Add(time.Hour)), "Delete": s.Delete(t.Context(), "k")} {
		f, ok := fault.As(err)
		if !ok || f.Code != fault.Unavailable || f.Message != "The result store cannot be reached now: try again in a few seconds." {
			t.Errorf("%s: %v, want unavailable", name, err)
			continue
		}
		if !strings.Contains(f.Err.Error(), cause) || strings.Contains(f.Err.Error(), postgrestest.Password) {
			t.Errorf("%s: cause %q, want one with %q and no password", name, f.Err, cause)
		}
	}
}

// TestRestart: without its server a store is unavailable. Results survive a crash of the server, and are there as soon as it is.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	s := open(t, pgstore.Options{URL: server.Database(t)})
	large := incompressible(3 << 20)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		put(t, s, "k", entry("o", time.Now(), large))
		put(t, s, "small", entry("o", time.Now(), []byte("1")))
		var readers sync.WaitGroup // so that all connections are open
		for range 8 {
			readers.Go(func() { has(t, s, "small") })
		}
		readers.Wait()
		server.Stop(signal)
		wantUnavailable(t, s, "does not answer")
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		if e, err := s.Get(t.Context(), "k", nil); err != nil || !bytes.Equal(e.Value, large) {
			t.Errorf("after %v: %d bytes, %v; want %d", signal, len(e.Value), err, len(large))
		}
		if !has(t, s, "small") {
			t.Errorf("after %v: not found", signal)
		}
	}
}

// TestRefused: what is wrong with the server is in the cause, with what helps.
func TestRefused(t *testing.T) {
	t.Parallel()
	url := shared.Start(t).Database(t)
	put(t, open(t, pgstore.Options{URL: url}), "k", entry("o", time.Now(), []byte("1")))
	wantUnavailable(t, open(t, pgstore.Options{URL: strings.Replace(url, "onecall:", "nobody:", 1)}), "refuses the login: check the user")
	db := admin(t, url)
	exec(t, db, "UPDATE onecall_results_meta SET version = 99")
	wantUnavailable(t, open(t, pgstore.Options{URL: url}), "was written by a newer version of onecall (its tables are of version 99, not 1): update")
	exec(t, db, "UPDATE onecall_results_meta SET version = 1")
	exec(t, db, `ALTER DATABASE `+databaseOf(t, url)+` SET default_transaction_read_only = on`)
	s := open(t, pgstore.Options{URL: url})
	if !has(t, s, "k") {
		t.Error("a read-only server does not give results")
	}
	if f, ok := fault.As(s.Put(t.Context(), "k", entry("o", time.Now(), []byte("1")))); !ok ||
		!strings.Contains(f.Err.Error(), "is read-only: name the primary server") {
		t.Errorf("Put on a read-only server: %v", f)
	}
	for _, bad := range []pgstore.Options{{}, {URL: "mysql://u:s3cret@h/d"}, {URL: "postgres://h:99999999/d"}, {URL: url, Timeout: 1},
		{URL: url, MaxBytes: -2}} {
		if _, err := pgstore.New(&bad); fault.CodeOf(err) != fault.BadRequest || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("New(%+v): %v, want bad_request", bad, err)
		}
	}
}

func databaseOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// hanging returns the address of a server that takes connections and never answers, and a channel that gets one value for each of them.
func hanging(t *testing.T) (address string, connected chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connected = make(chan struct{}, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			connected <- struct{}{}
		}
	}()
	t.Cleanup(func() { l.Close() })
	user := url.UserPassword("onecall", postgrestest.Password).String()
	return "postgres://" + user + "@" + l.Addr().String() + "/d?sslmode=disable&connect_timeout=3600", connected
}

// TestHanging: an operation on a server that hangs ends with its time, with its context, and when the store is closed.
func TestHanging(t *testing.T) {
	t.Parallel()
	address, connected := hanging(t)
	wantUnavailable(t, open(t, pgstore.Options{URL: address, Timeout: 100 * time.Millisecond}), "does not answer")
	s := open(t, pgstore.Options{URL: address, Timeout: time.Hour})
	for len(connected) > 0 {
		<-connected
	}
	get := func(ctx context.Context) chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := s.Get(ctx, "k", nil)
			ended <- err
		}()
		<-connected
		return ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	left, closed := get(ctx), get(t.Context())
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("Get whose caller left: %v, want context.Canceled", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-closed; !errors.Is(err, budget.ErrClosed) {
		t.Errorf("Get under way during Close: %v, want ErrClosed", err)
	}
}
