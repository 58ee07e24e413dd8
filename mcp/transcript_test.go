package mcp_test

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/internal/polltest"
)

var update = flag.Bool("update", false, "write the answers of the transcripts again")

// TestTranscripts runs the sessions of ../testdata/mcp: the section `options` is what is served, and each other section one
// client, named by how it connects (`stdio 2025-11-25`, `http 2026-07-28 token=ann surface=flat`). In a client's section
//
//	> METHOD PARAMS    sends a request or a notification, with the id and the _meta that the version asks for
//	> POST BODY        sends bytes as they are; > GET and > DELETE make requests without a body; each may name a path first
//	= idle            waits until no call and no run in the background goes on
//	+ Name: value      is a header of the next request; "Name:" leaves one out
//
// and the lines with < are what comes back: over HTTP the status with the headers that matter, and why the request was refused as it is
// counted, then each message.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/mcp/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) == 0 || archive.Files[0].Name != "options" {
				t.Fatal("the first section must be options")
			}
			server := serveStore(t, archive.Files[0].Data)
			for i := range archive.Files[1:] {
				section := &archive.Files[1+i]
				t.Run(section.Name, func(t *testing.T) {
					was := string(section.Data)
					if now := server.replay(t, section.Name, was); now != was {
						section.Data = []byte(now)
						if !*update {
							t.Errorf("the session is now\n%s\n%s", now, firstDifference(was, now))
						}
					}
				})
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// replay runs the requests of a section, and gives the section with what comes back.
func (s *store) replay(t *testing.T, name, script string) string {
	t.Helper()
	client := s.connect(t, strings.Fields(name))
	var out strings.Builder
	headers := http.Header{}
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "< ") {
			continue
		}
		out.WriteString(line + "\n")
		switch sign, rest, _ := strings.Cut(line, " "); sign {
		case "=":
			polltest.Until(t, "no call runs", func() bool { return s.server.Stats().Calls == 0 })
		case "+":
			name, value, _ := strings.Cut(rest, ":")
			headers.Add(name, strings.TrimSpace(value))
		case ">":
			for _, answer := range client.send(t, s.recall(rest), headers) {
				out.WriteString("< " + s.replaceVolatile(answer) + "\n")
			}
			headers = http.Header{}
		}
	}
	return out.String()
}

// firstDifference shows the first line in which two sessions differ.
func firstDifference(was, now string) string {
	old, lines := strings.Split(was, "\n"), strings.Split(now, "\n")
	for i := range min(len(old), len(lines)) {
		if old[i] != lines[i] {
			return "it differs first in\n-" + old[i] + "\n+" + lines[i]
		}
	}
	return "one ends before the other"
}
