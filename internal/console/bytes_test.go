package console_test

import (
	"bytes"
	"compress/gzip"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/console"
)

// TestBytesOfPages: a page with its scripts and styles has at most 60 kB as it is sent, the playground 160 kB.
func TestBytesOfPages(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, withValues)
	run, _ := s.run(t, "token:ann", `{"steps":[`+strings.TrimSuffix(strings.Repeat(`{"fn":"shop.get","forEach":"1..20","args":{"k":"$item"}},`, 100), ",")+
		`,{"fn":"shop.put","forEach":"1..200","args":{"k":"$item"}}]}`)
	for range 60 {
		s.run(t, "token:ann", mixed)
	}
	ann := s.browser(t, "ann")
	sent := func(path string) (size int, page string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip") // so the body is left as it is sent
		answer, err := ann.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: status %d, %v, header %v", path, answer.StatusCode, err, answer.Header)
		}
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return len(body), string(text)
	}
	for path, most := range map[string]int{"": 60_000, "runs/" + run: 60_000, "runs/" + run + "/approve": 60_000, "runs/" + run + "/fix": 60_000,
		"runs/" + run + "/steps/0": 60_000, "savings": 60_000, "functions": 60_000, "chains": 60_000, "approvals": 60_000, "playground": 160_000} {
		all, page := sent(console.Path + path)
		text := all
		for _, address := range regexp.MustCompile(`(?:src|href)="(/console/assets/[^"]+)"`).FindAllStringSubmatch(page, -1) {
			size, _ := sent(html.UnescapeString(address[1]))
			all += size
		}
		if t.Logf("%s: %d bytes, with scripts and styles %d", strings.ReplaceAll(path, run, "RUN"), text, all); all == text || all > most {
			t.Errorf("the page %q has %d bytes with its scripts and styles, want at most %d", path, all, most)
		}
	}
}
