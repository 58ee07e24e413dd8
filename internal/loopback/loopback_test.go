package loopback

import "testing"

func TestIs(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "localhost.": true, "app.localhost": false, "127.0.0.1": true, "127.0.0.1.": false,
		"127.8.9.10": true, "::1": true, "[::1]": true,
		"::ffff:127.0.0.1": true, "": false, "localhost.example.com": false, "mylocalhost": false, "0.0.0.0": false, "::": false,
		"10.0.0.1":     false,
		"127.0.0.1:80": false, "example.com": false, "127.1": false,
	} {
		if Is(host) != want {
			t.Errorf("Is(%q) = %t, want %t", host, !want, want)
		}
	}
}
