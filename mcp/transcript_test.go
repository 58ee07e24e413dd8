package mcp_test

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/transcript"
)

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
	transcript.Each(t, "../testdata/mcp/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		if len(archive.Files) == 0 || archive.Files[0].Name != "options" {
			t.Fatal("the first section must be options")
		}
		server := serveTranscript(t, archive.Files[0].Data)
		transcript.Replay(t, archive.Files[1:], func(t *testing.T, section *txtar.File) string {
			return server.replay(t, section.Name, string(section.Data))
		})
	})
}

// replay runs the requests of a section, and returns the section with the responses.
func (s *transcriptServer) replay(t *testing.T, name, script string) string {
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
