package groups

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// bytesAsTokens counts every byte, so that limits in tests are plain lengths.
func bytesAsTokens(text []byte) int { return len(text) }

func helpOf(t *testing.T, d *Dispatcher, call string, o HelpOptions) (string, []string) {
	t.Helper()
	r, faults := d.Read([]byte(call))
	if len(faults) > 0 || r.Help == nil {
		t.Fatalf("%s is not read as a call for help: %+v %v", call, r, faults)
	}
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	o.Count = bytesAsTokens
	if r.Lite != nil {
		o.Lite = *r.Lite
	}
	answer, given := d.Help(r.Help, &o)
	if !json.Valid(answer) {
		t.Fatalf("%s: not JSON: %s", call, answer)
	}
	return string(answer), given
}

// network returns a dispatcher with three resources.
func network(t testing.TB) *Dispatcher {
	t.Helper()
	list := spec("net.device.list", `{"type":"object","properties":{"site":{"type":"string","enum":["a","b)"]},`+
		`"limit":{"type":"integer","default":50}},"required":["site"]}`)
	list.Output = []byte(`{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}`)
	drop := spec("net.device.delete", `{"type":"object","properties":{"id":{"type":"integer"}}}`)
	drop.Effect = steps.Destroy
	view := registryOf(t, list, drop, spec("net.device.interface.list", ""), spec("net.rack.list", ""), spec("net.rack.help", ""))
	return mustNew(t, &Config{Groups: []Group{{Name: "dcim", Description: "Devices and\n racks.",
		Resources: []string{"net"}}}}).Arrange(view).Dispatchers[0]
}

func TestHelpGivesSignaturesOnce(t *testing.T) {
	t.Parallel()
	d := network(t)
	taught := map[string]bool{}
	o := HelpOptions{Taught: func(name string) bool { return taught[name] }}
	_, given := helpOf(t, d, `{"resource":"rack"}`, o)
	if !slices.Equal(given, []string{"net.rack.help", "net.rack.list"}) {
		t.Errorf("got signatures of %q, want net.rack.help and net.rack.list", given)
	}
	for _, name := range given {
		taught[name] = true
	}
	const comment = `,"null":"signature given before in this session; again:true repeats it"}`
	got, given := helpOf(t, d, `{"resource":"rack"}`, o)
	if got != `{"resources":{"rack":{"rack.help":null,"list":null}}`+comment || len(given) != 0 {
		t.Errorf("got %s, want no signature again", got)
	}
	got, given = helpOf(t, d, `{}`, o)
	if !strings.Contains(got, `"rack":{"rack.help":null,"list":null}}`+comment) || len(given) != 3 {
		t.Errorf("got %s, given %q, want those of rack not again, 3 others", got, given)
	}
	again, _ := helpOf(t, d, `{"resource":"rack","again":true}`, o)
	if fresh, _ := helpOf(t, d, `{"resource":"rack"}`, HelpOptions{}); again != fresh {
		t.Errorf("got %s, want %s", again, fresh)
	}
}

func TestHelpShortensOneResourceByAction(t *testing.T) {
	t.Parallel()
	var specs []steps.Spec
	for i := range 40 {
		specs = append(specs, spec(fmt.Sprintf("files.tool_%02d", i), `{"type":"object","properties":{"path":{"type":"string"}}}`))
	}
	d := mustNew(t, &Config{Autodispatch: true}).Arrange(registryOf(t, specs...)).Dispatchers[0]
	got, given := helpOf(t, d, `{}`, HelpOptions{Limit: 600})
	if len(got) > 600 || !strings.Contains(got, `"files":["tool_00",`) || !strings.Contains(got, `,"tool_39"]`) || len(given) != 0 {
		t.Errorf("got %d bytes: %s, with %d signatures, want at most 600 bytes: tool_00 to tool_39 without signatures", len(got), got, len(given))
	}
	got, _ = helpOf(t, d, `{}`, HelpOptions{Limit: 1000})
	if len(got) > 1000 || strings.Count(got, `"(path?: string)"`) < 10 || !strings.Contains(got, `"tool_00":null`) ||
		!strings.Contains(got, `"params\":{\"action\":\"files.tool_00\"}} shows more`) {
		t.Errorf("got %d %s, want at most 1000 bytes: 10 signatures or more, and the advice for tool_00", len(got), got)
	}
	got, _ = helpOf(t, d, `{}`, HelpOptions{Limit: 200})
	if len(got) > 200 || !strings.Contains(got, `"files":["tool_`) || !strings.Contains(got, `"more_actions":`) {
		t.Errorf("got %s, want at most 200 bytes: some actions and more_actions", got)
	}
}

// TestHelpShowsShapes: help shows the shape of results if a function declares none, and with schema:true the shape's schema.
func TestHelpShowsShapes(t *testing.T) {
	t.Parallel()
	shape := &steps.ResultShape{Schema: []byte(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`)}
	view := registryOf(t, spec("net.rack.list", ""),
		spec("net.rack.get", "")).Learn(func(spec *steps.Spec, call steps.Call) (steps.Call, func() *steps.ResultShape) {
		if spec.Name != "net.rack.list" {
			return nil, nil
		}
		return call, func() *steps.ResultShape { return shape }
	})
	d := mustNew(t, &Config{Groups: []Group{{Name: "dcim", Resources: []string{"net"}}}}).Arrange(view).Dispatchers[0]
	for call, want := range map[string]string{
		`{"action":"help"}`: `"list":"(…) seen: {id: integer} // Does net.rack.list"`,
		`{"action":"help","params":{"action":"list","schema":true}}`: `"seen":` + string(shape.Schema),
	} {
		if answer, _ := helpOf(t, d, call, HelpOptions{}); !strings.Contains(answer, want) {
			t.Errorf("%s: %s, want %s", call, answer, want)
		}
	}
	if answer, _ := helpOf(t, d, `{"action":"help"}`, HelpOptions{Limit: 90}); strings.Contains(answer, "seen") {
		t.Errorf("help shows a result shape beyond its limit: %s", answer)
	}
}
