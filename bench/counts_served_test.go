package bench

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/tally"
)

// served is onecall behind a client of the SDK, with what its calls have cost so far.
type served struct {
	t       *testing.T
	session *sdk.ClientSession
	counter budget.Counter
	spent   tally.Side
}

// service is an OpenAPI document with the service that it describes.
type service struct {
	name     string
	document []byte
	handler  http.Handler
	path     string // the base path of the service
}

// serveBoth serves services by onecall twice: with the surface chain, and with a tool for each function.
func serveBoth(t *testing.T, services ...service) (chain, flat *served) {
	t.Helper()
	folder, sources := t.TempDir(), map[string]any{}
	for _, s := range services {
		server := httptest.NewServer(s.handler)
		t.Cleanup(server.Close)
		spec := filepath.Join(folder, s.name+".json")
		if err := os.WriteFile(spec, s.document, 0o600); err != nil {
			t.Fatal(err)
		}
		sources[s.name] = map[string]string{"spec": spec, "baseUrl": server.URL + s.path}
	}
	config := map[string]any{"openapi": sources, "shapes": "off", "journal": map[string]string{"store": "memory"},
		"results": map[string]string{"store": "memory"}}
	return serveOnecall(t, config, "chain"), serveOnecall(t, config, "flat")
}

// serveOnecall serves a configuration over pipes, as stdio, until the test ends.
func serveOnecall(t *testing.T, config map[string]any, surface string) *served {
	t.Helper()
	text, err := rawjson.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "onecall.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		defer out.Close()
		ended <- app.Serve(t.Context(), &app.Options{Config: path, Surface: surface, Reporter: silent{}, Redactor: &app.Redactor{}},
			&app.ServeOptions{In: in, Out: out, Log: slog.DiscardHandler})
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s := &served{t: t, session: session, counter: newCounter(t)}
	s.awaitReady()
	return s
}

// awaitReady waits until all sources of onecall have started.
func (s *served) awaitReady() {
	s.t.Helper()
	for {
		var info struct{ State string }
		text := s.answer("info", `{}`)
		if err := json.Unmarshal([]byte(text), &info); err != nil || info.State == "degraded" {
			s.t.Fatalf("a source did not start: %s, %v", text, err)
		}
		if info.State == "ready" {
			return
		}
		time.Sleep(time.Millisecond) // polls: the client is told of new tools, not of a state
	}
}

// call calls a tool, counts the call and its answer, and returns the text of the answer.
func (s *served) call(tool, args string) string {
	s.t.Helper()
	text := s.answer(tool, args)
	s.spent.Add(tally.Side{RoundTrips: 1, Written: s.count(string(tally.CallText(tool, []byte(args)))), Read: s.count(text)})
	return text
}

// reads calls a tool, and returns how many tokens its answer has, and its text.
func (s *served) reads(tool, args string) (n int, text string) {
	s.t.Helper()
	before := s.spent.Read
	text = s.call(tool, args)
	return s.spent.Read - before, text
}

func (s *served) answer(tool, args string) string {
	s.t.Helper()
	result, err := s.session.CallTool(s.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		s.t.Fatalf("%s: %v", tool, err)
	}
	var text strings.Builder
	for _, block := range result.Content {
		if t, ok := block.(*sdk.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	if result.IsError {
		s.t.Fatalf("%s %.300s failed: %.1000s", tool, args, text.String())
	}
	return text.String()
}

// milliseconds matches a time in an answer, which differs from run to run. Tokens of continuation differ too, but all are of one length.
var milliseconds = regexp.MustCompile(`("\w*[mM]s":)\d+`)

func (s *served) count(text string) int {
	return s.counter.Count(milliseconds.ReplaceAll([]byte(text), []byte("${1}1")), -1)
}

// silent reports nothing: what fails, fails the test.
type silent struct{}

func (silent) Notice(string, ...any) {}
func (silent) Warn(*fault.Error)     {}
func (silent) Faults(*config.Error)  {}
