package transport_test

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/mcp/transport"
)

// TestReplicaName: invalid characters of a replica name are replaced, and refused in Options.
func TestReplicaName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "", "web-1": "web-1", "web.example.com": "web-example-com", "é b": "--b",
		strings.Repeat("a", 64): strings.Repeat("a", 63),
	} {
		if got := transport.ReplicaName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
		if err := (&transport.Options{Replica: name}).ApplyDefaults(); (err == nil) != (name == want) {
			t.Errorf("Options.Replica %q: %v, want success %t", name, err, name == want)
		}
	}
}

// TestLimits: one caller has a quarter of the sessions if there are tokens, and all of them otherwise. A quarter of the calls may run in
// the background.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		o      transport.Options
		tokens bool
		want   transport.Limits
	}{
		{transport.Options{}, true, transport.Limits{Calls: 64, Sessions: 250, Requests: 414, Detached: 16}},
		{transport.Options{}, false, transport.Limits{Calls: 1024, Sessions: 1000, Requests: 2124, Detached: 256}},
		{transport.Options{MaxSessions: 2, CallerCalls: 5}, true, transport.Limits{Calls: 5, Sessions: 1, Requests: 106, Detached: 1}},
		{transport.Options{CallerCalls: -1}, true, transport.Limits{Calls: -1, Sessions: 250, Requests: -1, Detached: -1}},
	} {
		if err := test.o.ApplyDefaults(); err != nil {
			t.Fatal(err)
		}
		if got := test.o.Limits(test.tokens); got != test.want {
			t.Errorf("limits %+v, want %+v", got, test.want)
		}
	}
}
