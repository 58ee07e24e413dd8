package clients

import "testing"

func TestGoRun(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]bool{
		"/tmp/go-build1844674407/b001/exe/onecall":   true,
		"/home/me/.cache/go-build/4f/4f0b-d/onecall": true,
		"/tmp/onecall":            false,
		"/tmp/x/go-build-onecall": false,
		"/usr/local/bin/onecall":  false,
	} {
		if got := isGoRun(program); got != want {
			t.Errorf("isGoRun(%s) = %v, want %v", program, got, want)
		}
	}
}
