//go:build unix

package app

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// TestDrainBacklog: connections made before the listener is closed are accepted, and none afterwards.
func TestDrainBacklog(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepts := 0
	l := &drainListener{Listener: inner, onAccept: func() { accepts++ }}
	var clients []net.Conn
	for range 5 {
		client, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		clients = append(clients, client)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range clients {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "welcome"); err != nil {
			t.Error(err)
		}
		conn.Close()
	}
	if conn, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after the backlog: got %v and error %v, want error %v", conn, err, net.ErrClosed)
	}
	for _, client := range clients {
		_ = client.SetReadDeadline(time.Now().Add(tooLong))
		if greeting, err := io.ReadAll(client); string(greeting) != "welcome" || err != nil {
			t.Errorf("got greeting %q and error %v, want welcome and no error", greeting, err)
		}
	}
	if err := inner.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing the inner listener again: got error %v, want %v", err, net.ErrClosed)
	}
	if accepts == 0 {
		t.Error("onAccept was not called")
	}
}
