//go:build unix

package sqljournal_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// heldProxy passes the bytes of connections to a server on. Once hold is called, what clients send on connections that have changed state
// waits for release or cut.
type heldProxy struct {
	mu          sync.Mutex
	connections []*heldConnection
	end         chan struct{} // closed by release and cut
	forwards    bool          // what was held is sent
}

type heldConnection struct{ changedState, held bool }

// proxied returns the address of the database through a proxy.
func proxied(t *testing.T, address string) (*heldProxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	query := u.Query()
	server := filepath.Join(query.Get("host"), ".s.PGSQL.5432")
	listener, err := net.Listen("unix", filepath.Join(folder, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	p := &heldProxy{end: make(chan struct{})}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.pass(client, server)
		}
	}()
	query.Set("host", folder)
	u.RawQuery = query.Encode()
	return p, u.String()
}

func (p *heldProxy) pass(client net.Conn, server string) {
	defer client.Close()
	to, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = bytesTo(client, to)
		client.Close()
	}()
	c := &heldConnection{}
	p.mu.Lock()
	p.connections = append(p.connections, c)
	p.mu.Unlock()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		p.mu.Lock()
		c.changedState = c.changedState || bytes.Contains(buffer[:n], []byte("version = version + 1"))
		held := c.held
		p.mu.Unlock()
		if held {
			<-p.end
			if !p.forwards {
				return
			}
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

func bytesTo(client, server net.Conn) (int64, error) {
	buffer, sum := make([]byte, 1<<16), int64(0)
	for {
		n, err := server.Read(buffer)
		if _, failed := client.Write(buffer[:n]); failed != nil || err != nil {
			return sum, errors.Join(err, failed)
		}
		sum += int64(n)
	}
}

func (p *heldProxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.connections {
		c.held = c.changedState
	}
}

func (p *heldProxy) release(forwards bool) {
	p.forwards = forwards
	close(p.end)
}

// TestLateCommit: a commit that reaches the server after its client has given up is waited for: the change is reported as it turns out.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{"arrives": true, "is lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := shared.Start(t).Database(t)
			proxy, through := proxied(t, address)
			d, err := sqljournal.OpenPostgres(through, &sqljournal.Options{Timeout: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			j, err := journal.New(d, &journal.Options{Key: make([]byte, journal.MinKeyBytes)})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			admin, err := sql.Open("pgx", address)
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			key := journal.StateKey{Owner: "ann", Name: "n"}
			change := func(value string, each func()) error {
				_, err := j.ChangeState(t.Context(), "ann", key, func(now journal.StateNow) (*journal.StateChange, []byte, error) {
					each()
					return &journal.StateChange{Value: []byte(value), Expires: now.Now.Add(time.Hour)}, nil, nil
				})
				return err
			}
			for range 3 { // from then on the statements are prepared on the connection, and the commit goes with the last of them
				if err := change("1", func() {}); err != nil {
					t.Fatal(err)
				}
				if _, err := j.List(t.Context(), &journal.Filter{}); err != nil { // the sums of the run are written apart
					t.Fatal(err)
				}
			}
			changed := make(chan error, 1)
			go func() { changed <- change("2", proxy.hold) }()
			polltest.Until(t, "the journal waits for the transaction whose commit is late", func() bool {
				var waiting int
				err := admin.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).
					Scan(&waiting)
				return err == nil && waiting == 1
			})
			proxy.release(arrives)
			err = <-changed
			var values []journal.StateValue
			eventually(t, func(ctx context.Context) (err error) {
				values, err = j.States(ctx, &journal.StateFilter{Owner: "ann", Values: true})
				return err
			})
			want := map[bool]string{true: "2", false: "1"}[arrives]
			if (err == nil) != arrives || len(values) != 1 || string(values[0].Value) != want || err != nil && fault.OutcomeOf(err) != fault.NotSent {
				t.Errorf("the change is %v (%v), and the value %s; want %s", err, fault.OutcomeOf(err), values[0].Value, want)
			}
		})
	}
}
