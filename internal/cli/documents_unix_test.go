//go:build unix

package cli

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
)

// documented is a service that publishes its own OpenAPI document, which may change, or be away.
type documented struct {
	address string
	noun    atomic.Value // of the one operation that the document describes; "": the document is gone
}

func (d *documented) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// listen has the service answer from now on.
func (d *documented) listen(t *testing.T) {
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

func (d *documented) config(t *testing.T, folder string) string {
	t.Helper()
	return write(t, folder, "onecall.yaml", fmt.Sprintf("openapi: {stock: {spec: 'http://%s/openapi.yaml'}}\n", d.address))
}

// awayService is one that does not listen yet.
func awayService(t *testing.T) *documented {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	d := &documented{address: listener.Addr().String()}
	d.noun.Store("item")
	return d
}

// TestDocumentByURL: the commands have the functions of a document that is given by its URL, and say why they have none.
func TestDocumentByURL(t *testing.T) {
	t.Parallel()
	d, folder := awayService(t), t.TempDir()
	d.config(t, folder)
	chain := write(t, folder, "items.chain.json", `{"steps":[{"fn":"stock.item.list"}],"lite":true}`)
	tools := func(status string) gjson.Result {
		t.Helper()
		text, err := command(t, folder, "tools", "--json").Output()
		if got := exitCodeOf(err); got != status {
			t.Fatalf("status %s, want %s: %v", got, status, err)
		}
		return gjson.ParseBytes(text)
	}
	source := tools("5").Get(`sources.#(name=="stock")`)
	if source.Get("state").Str != "retrying" || source.Get("functions").Int() != 0 || source.Get("error").Str == "" {
		t.Errorf("while it is away: %s", source.Raw)
	}
	if answer, err := command(t, folder, "run", chain).Output(); exitCodeOf(err) != "5" || !strings.Contains(string(answer), `"unavailable"`) {
		t.Errorf("while it is away: %s, %v", answer, err)
	}
	d.listen(t)
	list := tools("0")
	if source = list.Get(`sources.#(name=="stock")`); source.Get("state").Str != "ready" || source.Get("functions").Int() != 1 || source.Get("error").Exists() {
		t.Errorf("%s", source.Raw)
	}
	if !list.Get(`functions.#(name=="stock.item.list")`).Exists() {
		t.Errorf("%s", list.Get("functions.#.name"))
	}
	for _, args := range [][]string{{"call", "--lite", "stock.item.list"}, {"run", chain}} {
		if answer, err := command(t, folder, args...).Output(); err != nil || strings.TrimSpace(string(answer)) != `{"path":"/items"}` {
			t.Errorf("%q: %s, %v", args, answer, err)
		}
	}
	d.noun.Store("")
	source = tools("5").Get(`sources.#(name=="stock")`)
	if source.Get("state").Str != "retrying" || !strings.Contains(source.Get("error").Str, "404") {
		t.Errorf("without its document: %s", source.Raw)
	}
}

// TestServeDocumentByURL: a server has the functions of a document that comes late, and those of one that changes, also after
// its configuration was loaded again; they stay when the document is gone.
func TestServeDocumentByURL(t *testing.T) {
	t.Parallel()
	d := awayService(t)
	config := d.config(t, t.TempDir())
	s := serveHTTP(t, config)
	w := stateless(t, s.url)
	calls := func(noun string) bool {
		text, failed := w.tool(t, "chain", map[string]any{"steps": []any{map[string]any{"fn": "stock." + noun + ".list"}}, "lite": true})
		return !failed && text == fmt.Sprintf(`{"path":"/%ss"}`, noun)
	}
	if calls("item") {
		t.Fatal("a service that is away is called")
	}
	d.listen(t)
	within(t, "the functions come", s.stderr, func() bool { return calls("item") })
	d.noun.Store("order")
	hangUp(t, s.cmd)
	within(t, "the functions of the changed document come", s.stderr, func() bool { return calls("order") && !calls("item") })
	write(t, strings.TrimSuffix(config, "onecall.yaml"), "onecall.yaml", "surface: nowhere\n") // one that is refused
	hangUp(t, s.cmd)
	says(t, s.stderr, wasRefused, 1)
	d.config(t, strings.TrimSuffix(config, "onecall.yaml"))
	hangUp(t, s.cmd)
	d.noun.Store("part")
	hangUp(t, s.cmd)
	within(t, "the functions of the next document come", s.stderr, func() bool {
		hangUp(t, s.cmd)
		return calls("part")
	})
	d.noun.Store("")
	hangUp(t, s.cmd)
	says(t, s.stderr, "cannot be loaded again", 1)
	if !calls("part") {
		t.Error("the functions of a document that is gone are gone")
	}
}
