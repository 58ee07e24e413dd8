package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
	b := New(&report.Options{Root: "../../../..", Tools: t.TempDir(), Short: true, Log: t.Logf}, &report.Section{})
	t.Cleanup(b.Close)
	return b
}

func TestSession(t *testing.T) {
	t.Parallel()
	b := testBench(t)
	s := b.Open(t.Context(), testServer("fine"))
	defer s.End()
	list, tools := s.CountList(t.Context())
	if tools != 1 || gjson.Get(list, "tools.0.name").Str != "echo" || s.Spent.List != b.Count(list)+b.Count("be brief") {
		t.Errorf("CountList: got %s, %d, spent %+v, want 1 tool, echo, and the tokens of its list and instructions", list, tools, s.Spent)
	}
	text := s.Call(t.Context(), "echo", `{"text":"three"}`)
	want := Tokens{List: s.Spent.List, Written: b.Count(`{"name":"echo","arguments":{"text":"three"}}`), Read: 3, Calls: 1}
	if text != "one two three" || s.Spent != want {
		t.Errorf("Call: %q, spent %+v, want %+v", text, s.Spent, want)
	}
	if err := Try(func() { s.Call(t.Context(), "echo", `{"fail":true}`) }); err == nil || !strings.Contains(err.Error(), "as asked") {
		t.Errorf(`Call of a tool that fails: got error %v, want "as asked"`, err)
	}
}

func TestUnresponsiveServers(t *testing.T) {
	t.Parallel()
	b := testBench(t)
	err := Try(func() { b.Open(t.Context(), testServer("quits")) })
	if err == nil || !strings.Contains(err.Error(), "no account") || strings.Contains(err.Error(), "starting") {
		t.Errorf(`Open of a server that quits: got error %v, want "no account" without "starting"`, err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if err := Try(func() { b.Open(ctx, testServer("hangs")) }); err == nil {
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
	s := Section{Name: "made", Text: "# Made\n\nWhy?\n\n## Corpus\n\n- a\n  b\n- c\n\n## Comments\n\n- last\n\n## bad\n\n- none\n\n## good\n\n- fine\n", Parts: []Part{
		{"good", func(_ context.Context, b *Bench) { b.Figure(report.TokenFigure("a", "", 1)) }},
		{"bad", func(context.Context, *Bench) { Check(fails) }},
	}}
	o := &report.Options{Root: t.TempDir(), Short: true, Log: t.Logf}
	got, err := s.Run(t.Context(), o)
	if err != nil || len(got.Figures) != 1 || !slices.Equal(got.Comments, []string{"fine", "bad: not measured: no network", "last"}) ||
		got.Title != "Made" || got.Question != "Why?" || !slices.Equal(got.Corpus, []string{"a b", "c"}) {
		t.Errorf("Run: got %+v, %v, want the words, a figure and three comments", got, err)
	}
	only := Section{Parts: s.Parts[1:]}
	if _, err := only.Run(t.Context(), o); err == nil || err.Error() != "nothing could be measured here: bad: not measured: no network" {
		t.Errorf("Run without a result: got error %v, want that nothing could be measured", err)
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

// TestTry: Check ends the work and In says what it was, and a panic that is none of Check's goes on.
func TestTry(t *testing.T) {
	t.Parallel()
	err := Try(func() {
		In("outer", func() { Must(os.Open(filepath.Join(t.TempDir(), "absent"))) })
		t.Error("the work went on")
	})
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "outer: open ") {
		t.Errorf("Try: got error %v, want that of the file, after outer", err)
	}
	defer func() {
		if recover() != "else" {
			t.Error("Try recovers a panic that is none of Check's")
		}
	}()
	_ = Try(func() { panic("else") })
}
