//go:build e2e && unix

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// documentService is a service that publishes its own OpenAPI document. The document may change or be missing.
type documentService struct {
	address string
	noun    atomic.Value // the noun in the path of the document's one operation; "": the document is missing
}

func (d *documentService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	noun, _ := d.noun.Load().(string)
	switch {
	case r.URL.Path == "/openapi.yaml" && noun != "":
		fmt.Fprintf(w, "openapi: 3.0.0\ninfo: {title: Stock, version: %q}\nservers: [{url: /}]\n"+
			"paths: {/%ss: {get: {responses: {'200': {description: ok, content: {application/json: {schema: {type: object}}}}}}}}\n", noun, noun)
	case r.URL.Path == "/openapi.yaml":
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
	}
}

// listen starts the service.
func (d *documentService) listen(t *testing.T) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	d.address = listener.Addr().String()
	server := &http.Server{Handler: d}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

func (d *documentService) config(t *testing.T, folder string) string {
	t.Helper()
	return clitest.Write(t, folder, "onecall.yaml", fmt.Sprintf("openapi: {stock: {spec: 'http://%s/openapi.yaml'}}\n", d.address))
}

// unstartedService returns a service that does not listen yet.
func unstartedService(t *testing.T) *documentService {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	d := &documentService{address: listener.Addr().String()}
	d.noun.Store("item")
	return d
}

// TestDocumentByURL checks that commands offer the functions of a document at a URL, and report why there are none.
func TestDocumentByURL(t *testing.T) {
	t.Parallel()
	d, folder := unstartedService(t), t.TempDir()
	d.config(t, folder)
	chain := clitest.Write(t, folder, "items.chain.json", `{"steps":[{"fn":"stock.item.list"}],"lite":true}`)
	tools := func(status string) gjson.Result {
		t.Helper()
		text, err := clitest.Command(t, folder, "tools", "--json").Output()
		if got := clitest.ExitCode(err); got != status {
			t.Fatalf("tools: exit status %s, want %s: %v", got, status, err)
		}
		return gjson.ParseBytes(text)
	}
	source := tools("5").Get(`sources.#(name=="stock")`)
	if source.Get("state").Str != "retrying" || source.Get("functions").Int() != 0 || source.Get("error").Str == "" {
		t.Errorf("before the service starts: got %s, want retrying with an error and no functions", source.Raw)
	}
	if answer, err := clitest.Command(t, folder, "run", chain).Output(); clitest.ExitCode(err) != "5" ||
		!strings.Contains(string(answer), `"unavailable"`) {
		t.Errorf("run before the service starts: got %s, %v, want unavailable and exit status 5", answer, err)
	}
	d.listen(t)
	list := tools("0")
	if source = list.Get(`sources.#(name=="stock")`); source.Get("state").Str != "ready" || source.Get("functions").Int() != 1 ||
		source.Get("error").Exists() {
		t.Errorf("after the service started: got %s, want ready with 1 function and no error", source.Raw)
	}
	if !list.Get(`functions.#(name=="stock.item.list")`).Exists() {
		t.Errorf("functions %s, want stock.item.list among them", list.Get("functions.#.name"))
	}
	for _, args := range [][]string{{"call", "--lite", "stock.item.list"}, {"run", chain}} {
		if answer, err := clitest.Command(t, folder, args...).Output(); err != nil || strings.TrimSpace(string(answer)) != `{"path":"/items"}` {
			t.Errorf("%q: got %s, %v, want the path /items", args, answer, err)
		}
	}
	d.noun.Store("")
	source = tools("5").Get(`sources.#(name=="stock")`)
	if source.Get("state").Str != "retrying" || !strings.Contains(source.Get("error").Str, "404") {
		t.Errorf("without the document: got %s, want retrying because of 404", source.Raw)
	}
}

// TestServeDocumentByURL checks that a server offers the functions of a document that appears late or changes, also after a reload of
// the configuration. The functions must stay if the document disappears.
func TestServeDocumentByURL(t *testing.T) {
	t.Parallel()
	d := unstartedService(t)
	config := d.config(t, t.TempDir())
	s := serveHTTP(t, config)
	w := stateless(t, s.url)
	calls := func(noun string) bool {
		text, failed := w.tool(t, "chain", map[string]any{"steps": []any{map[string]any{"fn": "stock." + noun + ".list"}}, "lite": true})
		return !failed && text == fmt.Sprintf(`{"path":"/%ss"}`, noun)
	}
	if calls("item") {
		t.Fatal("stock.item.list succeeded before the service started")
	}
	d.listen(t)
	polltest.Until(t, "stock.item.list can be called", func() bool { return calls("item") }, s.stderr)
	d.noun.Store("order")
	hangUp(t, s.cmd)
	polltest.Until(t, "only stock.order.list can be called", func() bool { return calls("order") && !calls("item") }, s.stderr)
	clitest.Write(t, strings.TrimSuffix(config, "onecall.yaml"), "onecall.yaml", "surface: nowhere\n") // a faulty configuration
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, logRefused, 1)
	d.config(t, strings.TrimSuffix(config, "onecall.yaml"))
	hangUp(t, s.cmd)
	d.noun.Store("part")
	hangUp(t, s.cmd)
	polltest.Until(t, "stock.part.list can be called", func() bool {
		hangUp(t, s.cmd)
		return calls("part")
	}, s.stderr)
	d.noun.Store("")
	hangUp(t, s.cmd)
	waitForLog(t, s.stderr, "cannot be loaded again", 1)
	if !calls("part") {
		t.Error("the function is gone after its document was removed")
	}
}
