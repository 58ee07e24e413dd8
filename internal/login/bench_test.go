package login

import (
	"bytes"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// The cost of a login for each request: it reads no file and sends no request.
func BenchmarkToken(b *testing.B) {
	made, err := Handler(&Options{Source: "hub", ServerURL: "https://example.com/mcp", Store: newFileStore(filepath.Join(b.TempDir(),
		"logins.json")), HTTPClient: &http.Client{}})
	if err != nil {
		b.Fatal(err)
	}
	h := made.(*handler)
	h.setCurrent(&record{Access: "token", Obtained: time.Now(), Expires: time.Now().Add(time.Hour)})
	b.ReportAllocs()
	for b.Loop() {
		tokens, err := h.TokenSource(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if got, err := tokens.Token(); err != nil || got.AccessToken != "token" {
			b.Fatalf("got %+v, %v, want the access token token", got, err)
		}
	}
}

// The cost that a renewal adds: one login of 2 KB in the file is replaced.
func BenchmarkFileSet(b *testing.B) {
	s := newFileStore(filepath.Join(b.TempDir(), "logins.json"))
	value := bytes.Repeat([]byte("x"), 2000)
	for b.Loop() {
		if err := s.Set(b.Context(), "key", value); err != nil {
			b.Fatal(err)
		}
	}
	if got, err := s.Get(b.Context(), "key"); err != nil || !bytes.Equal(got, value) {
		b.Fatalf("Get: got %d bytes, %v, want the %d stored ones", len(got), err, len(value))
	}
}
