package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

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

func testBench(t *testing.T) *Bench {
	t.Helper()
	b, err := New(&report.Options{Root: "../../../..", Tools: t.TempDir(), Short: true, Log: t.Logf}, &report.Section{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestSession(t *testing.T) {
	t.Parallel()
	b := testBench(t)
	s, err := b.Open(t.Context(), testServer("fine"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.End()
	list, tools, err := s.CountList(t.Context())
	if err != nil || tools != 1 || gjson.Get(list, "tools.0.name").Str != "echo" || s.Spent.List != b.Count(list)+b.Count("be brief") {
		t.Errorf("CountList: got %s, %d, spent %+v, %v, want 1 tool, echo, and the tokens of its list and instructions", list, tools, s.Spent, err)
	}
	text, err := s.Call(t.Context(), "echo", `{"text":"three"}`)
	want := Tokens{List: s.Spent.List, Written: b.Count(`{"name":"echo","arguments":{"text":"three"}}`), Read: 3, Calls: 1}
	if err != nil || text != "one two three" || s.Spent != want {
		t.Errorf("Call: %q, spent %+v, want %+v, %v", text, s.Spent, want, err)
	}
	if _, err := s.Call(t.Context(), "echo", `{"fail":true}`); err == nil || !strings.Contains(err.Error(), "as asked") {
		t.Errorf(`Call of a tool that fails: got error %v, want "as asked"`, err)
	}
}

func TestUnresponsiveServers(t *testing.T) {
	t.Parallel()
	b := testBench(t)
	_, err := b.Open(t.Context(), testServer("quits"))
	if err == nil || !strings.Contains(err.Error(), "no account") || strings.Contains(err.Error(), "starting") {
		t.Errorf(`Open of a server that quits: got error %v, want "no account" without "starting"`, err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := b.Open(ctx, testServer("hangs")); err == nil {
		t.Error("Open of a server that hangs returned no error")
	}
}

func TestCountIgnoresFolder(t *testing.T) {
	t.Parallel()
	if b := testBench(t); b.Count(b.Temp+"/a.txt") != b.Count("/home/ada/work/a.txt") {
		t.Error("the count depends on the folder's name")
	}
}

// TestRun: a part that cannot be measured here is left out with a comment, and any other error is one of the section.
func TestRun(t *testing.T) {
	t.Parallel()
	fails := fmt.Errorf("%w: no network", ErrNotHere)
	s := Section{Name: "made", Comments: []string{"last"}, Parts: []Part{
		{"good", func(_ context.Context, b *Bench) error { b.Figure(report.TokenFigure("a", "", 1)); return nil }},
		{"bad", func(context.Context, *Bench) error { return fails }},
	}}
	o := &report.Options{Root: t.TempDir(), Short: true, Log: t.Logf}
	got, err := s.Run(t.Context(), o)
	if err != nil || len(got.Figures) != 1 || !slices.Equal(got.Comments, []string{"bad: not measured: no network", "last"}) {
		t.Errorf("Run: got %+v, %v, want a figure and two comments", got, err)
	}
	fails = errors.New("wrong")
	if _, err := s.Run(t.Context(), o); err == nil || err.Error() != "bad: wrong" {
		t.Errorf("Run of a part that fails: got error %v, want bad: wrong", err)
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	if got := OneLine(errors.New("out of\norder" + strings.Repeat("x", longest))); !strings.HasPrefix(got, "out of order") || len(got) != longest+len("…") {
		t.Errorf("OneLine returns %q, want one line of %d bytes", got, longest)
	}
}
