package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// memorySource is a source on a server of the same process, which the test can have refuse connections and break them.
type memorySource struct {
	*Source
	mu      sync.Mutex
	refusal error
	at      []time.Time
	server  *sdk.ServerSession
}

func (m *memorySource) refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal = err
}

// starts are the times at which the server was started.
func (m *memorySource) starts() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.at)
}

// lose breaks the connection from the server's side.
func (m *memorySource) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.server.Close()
}

func openInMemory(t *testing.T, o Options) *memorySource {
	t.Helper()
	o.Name, o.Command = "shelf", "x"
	checked, f := o.withDefaults()
	if f != nil {
		t.Fatal(f)
	}
	m := &memorySource{Source: newSource(checked)}
	m.dial = func(over *tap) (sdk.Transport, *process, *fault.Error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.at = append(m.at, time.Now())
		if m.refusal != nil {
			f := fault.New(fault.Unavailable, "refused")
			errors.As(m.refusal, &f)
			return nil, nil, f
		}
		near, far := sdk.NewInMemoryTransports()
		session, err := goodServer(nil).Connect(context.Background(), far, nil)
		if err != nil {
			t.Error(err)
		}
		m.server = session
		return memoryTransport{near, over}, nil, nil
	}
	return m
}

// memoryTransport puts the tap into a transport in memory.
type memoryTransport struct {
	sdk.Transport
	tap *tap
}

func (t memoryTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	return memoryConn{conn, t.tap}, err
}

type memoryConn struct {
	sdk.Connection
	tap *tap
}

func (c memoryConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if request, ok := m.(*jsonrpc.Request); ok && request.IsCall() {
		if id, ok := request.ID.Raw().(int64); ok {
			if x := c.tap.register(ctx, id); x != nil {
				x.markSent()
			}
		}
	}
	return c.Connection.Write(ctx, m)
}

func (c memoryConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		text, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			return nil, err
		}
		if kept := c.tap.filter(string(text), nil); kept != "" {
			return jsonrpc.DecodeMessage([]byte(kept))
		}
	}
}

// The clock of these tests is false: they take no time.
func TestBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := openInMemory(t, Options{})
		m.refuse(errors.New("down"))
		m.open()
		defer func() { _ = m.Close() }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(m.starts()); n < 12 || n > 20 {
			t.Fatalf("%d starts in ten minutes", n)
		}
		starts := m.starts()
		for i := 1; i < len(starts); i++ {
			wait := starts[i].Sub(starts[i-1])
			want := min(firstWait<<(i-1), longestWait)
			if wait < want*8/10 || wait > want*12/10 {
				t.Errorf("the wait before start %d is %v, want about %v", i, wait, want)
			}
		}
		if status := m.Status(); status.State != steps.StateRetrying || time.Until(status.Retry) > 72*time.Second {
			t.Errorf("%+v", status)
		}
		m.refuse(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if m.Status().State != steps.StateReady || len(m.Functions()) == 0 {
			t.Errorf("%+v when the server has come", m.Status())
		}
	})
}

// What only a change of the configuration can mend is not tried again, but by a call.
func TestFailedIsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := openInMemory(t, Options{})
		m.refuse(fault.New(fault.BadRequest, "no such command"))
		m.open()
		defer func() { _ = m.Close() }()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(m.starts()) != 1 || m.Status().State != steps.StateFailed || !m.Status().Retry.IsZero() {
			t.Fatalf("%d starts, %+v", len(m.starts()), m.Status())
		}
		m.refuse(nil)
		if _, err := m.call(t.Context(), &tool{name: "put", function: "shelf.put"}, []byte(`{"name":"a"}`)); err != nil {
			t.Error(err)
		}
	})
}

// A call hurries the next start, and fails as soon as that has failed.
func TestCallsHurryARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := openInMemory(t, Options{})
		m.refuse(errors.New("down"))
		m.open()
		defer func() { _ = m.Close() }()
		time.Sleep(5 * time.Minute)
		for range 5 {
			begun := time.Now()
			_, err := m.call(t.Context(), &tool{name: "put", function: "shelf.put"}, []byte(`{}`))
			if f, _ := fault.As(err); f == nil || f.Code != fault.Unavailable || f.Outcome != fault.NotSent || f.Message != "refused" {
				t.Fatalf("%v", err)
			}
			if took := time.Since(begun); took > hurryAfter {
				t.Errorf("the call waited %v", took)
			}
		}
		before := len(m.starts())
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := m.call(ctx, &tool{name: "put", function: "shelf.put"}, []byte(`{}`)); fault.CodeOf(err) != fault.Timeout {
			t.Errorf("a call that cannot wait: %v", err)
		}
		if len(m.starts()) != before {
			t.Error("starts were not held apart")
		}
	})
}

// A connection that breaks is made again, soon if it was healthy for a minute.
func TestHealthySessionIsRestartedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := openInMemory(t, Options{})
		m.open()
		defer func() { _ = m.Close() }()
		for range 10 {
			time.Sleep(2 * healthyAfter)
			synctest.Wait()
			broken := time.Now()
			starts := len(m.starts())
			m.lose()
			time.Sleep(time.Second)
			synctest.Wait()
			if len(m.starts()) != starts+1 || m.starts()[starts].Sub(broken) > time.Second {
				t.Fatalf("not restarted within a second: %d starts", len(m.starts())-starts)
			}
		}
		if m.Status().State != steps.StateReady {
			t.Errorf("%+v", m.Status())
		}
	})
}

func TestStartDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := openInMemory(t, Options{StartTimeout: 5 * time.Second})
		var conns []sdk.Connection
		defer func() {
			for _, conn := range conns {
				_ = conn.Close()
			}
		}()
		m.dial = func(*tap) (sdk.Transport, *process, *fault.Error) {
			near, far := sdk.NewInMemoryTransports()
			conn, err := far.Connect(context.Background()) // which reads, and never answers
			if err != nil {
				t.Error(err)
			}
			conns = append(conns, conn)
			return near, nil, nil
		}
		m.open()
		defer func() { _ = m.Close() }()
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		if status := m.Status(); status.State != steps.StateRetrying || status.Error == nil || status.Error.Code != fault.Unavailable {
			t.Errorf("after its deadline: %+v", status)
		}
	})
}
