package app

import "testing"

// TestAddresses: clients and metrics need addresses of their own; any free port is one.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		http, metrics string
		ok            bool
	}{
		{"127.0.0.1:7097", "127.0.0.1:7097", false}, {":7097", "127.0.0.1:7097", false}, {"127.0.0.1:7097", "127.0.0.1:7098", true},
		{"127.0.0.1:0", "127.0.0.1:0", true}, {"", "127.0.0.1:7097", true}, {"127.0.0.1:7097", "", true},
	} {
		o := &ServeOptions{HTTP: test.http, Metrics: test.metrics}
		if err := o.checkAddresses(); (err == nil) != test.ok {
			t.Errorf("--http %q, --metrics %q: error %v, want ok %t", test.http, test.metrics, err, test.ok)
		}
	}
}
